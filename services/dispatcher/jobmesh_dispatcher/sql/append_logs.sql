-- RUNNING, CANCELLING: keeps log lines of leased jobs and counts them, under their attempt and the attachment of
-- their session, whose one dispatcher numbers them: as `save_checkpoints.sql`. $1 job ids, $2 attempts,
-- $3 session ids, $4 attachments, $5 sequences, $6 levels, $7 messages.
-- No index serves IS NOT DISTINCT FROM: each job is found by its id, never among all that run.
WITH line AS (
    SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::uuid[], $5::bigint[], $6::smallint[], $7::text[])
        AS line (job_id, attempt, session_id, attachment, sequence, level, message)
), attached AS MATERIALIZED (
    SELECT session.session_id, session.attachment FROM jobmesh.sessions session
    JOIN (SELECT DISTINCT session_id, attachment FROM line) AS mine
        ON session.session_id = mine.session_id AND session.attachment = mine.attachment
    WHERE session.end_time IS NULL
    ORDER BY session.session_id
    FOR KEY SHARE OF session
), total AS (
    SELECT job_id, attempt, session_id, max(sequence) AS lines, sum(octet_length(message)) AS bytes
    FROM line JOIN attached USING (session_id, attachment) GROUP BY job_id, attempt, session_id
    ORDER BY job_id
), counted AS (
    UPDATE jobmesh.jobs_live job SET log_lines = total.lines, log_bytes = job.log_bytes + total.bytes
    FROM total
    WHERE job.job_id = total.job_id AND job.attempt = total.attempt AND job.session_id IS NOT DISTINCT FROM total.session_id
      AND job.state IN ('RUNNING', 'CANCELLING')
    RETURNING job.job_id, job.attempt
)
INSERT INTO jobmesh.job_logs (job_id, sequence, attempt, "time", level, message)
SELECT line.job_id, line.sequence, line.attempt, clock_timestamp(), line.level, line.message
FROM line JOIN attached USING (session_id, attachment) JOIN counted USING (job_id, attempt)
ON CONFLICT DO NOTHING
