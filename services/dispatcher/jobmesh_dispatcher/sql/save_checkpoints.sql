-- RUNNING, CANCELLING: keeps checkpoints, under their attempt and the attachment of their session, which waits to
-- be moved meanwhile: a later one, by way of another dispatcher, is not overwritten. $1 job ids, $2 attempts,
-- $3 session ids, $4 attachments, $5 checkpoints, $6 types.
-- No index serves IS NOT DISTINCT FROM: each job is found by its id, never among all that run.
WITH report AS (
    SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::uuid[], $5::bytea[], $6::text[])
        AS report (job_id, attempt, session_id, attachment, checkpoint, checkpoint_type)
), attached AS MATERIALIZED (
    SELECT session.session_id, session.attachment FROM jobmesh.sessions session
    JOIN (SELECT DISTINCT session_id, attachment FROM report) AS mine
        ON session.session_id = mine.session_id AND session.attachment = mine.attachment
    WHERE session.end_time IS NULL
    ORDER BY session.session_id
    FOR KEY SHARE OF session
)
UPDATE jobmesh.jobs_live job SET checkpoint = report.checkpoint, checkpoint_type = report.checkpoint_type
FROM report JOIN attached USING (session_id, attachment)
WHERE job.job_id = report.job_id AND job.attempt = report.attempt AND job.session_id IS NOT DISTINCT FROM report.session_id
  AND job.state IN ('RUNNING', 'CANCELLING')
RETURNING job.job_id, job.attempt
