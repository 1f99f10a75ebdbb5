-- RUNNING, CANCELLING: keeps the latest progress of each job, under its attempt and the attachment of its session:
-- as `save_checkpoints.sql`. $1 job ids, $2 attempts, $3 session ids, $4 attachments, $5 progress.
-- No index serves IS NOT DISTINCT FROM: each job is found by its id, never among all that run.
WITH report AS (
    SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::uuid[], $5::bytea[])
        AS report (job_id, attempt, session_id, attachment, progress)
), attached AS MATERIALIZED (
    SELECT session.session_id, session.attachment FROM jobmesh.sessions session
    JOIN (SELECT DISTINCT session_id, attachment FROM report) AS mine
        ON session.session_id = mine.session_id AND session.attachment = mine.attachment
    WHERE session.end_time IS NULL
    ORDER BY session.session_id
    FOR KEY SHARE OF session
)
UPDATE jobmesh.jobs_live job SET progress = report.progress
FROM report JOIN attached USING (session_id, attachment)
WHERE job.job_id = report.job_id AND job.attempt = report.attempt AND job.session_id IS NOT DISTINCT FROM report.session_id
  AND job.state IN ('RUNNING', 'CANCELLING')
