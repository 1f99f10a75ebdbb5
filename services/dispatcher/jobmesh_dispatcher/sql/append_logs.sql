-- RUNNING, CANCELLING: keeps log lines of leased jobs and counts them, under their attempt and
-- session. Line numbers are given by the one dispatcher that holds the session. $1 job ids, $2
-- attempts, $3 session ids, $4 sequences, $5 levels, $6 messages.
-- No index serves IS NOT DISTINCT FROM: each job is found by its id, never among all that run.
WITH line AS (
    SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::bigint[], $5::smallint[], $6::text[])
        AS line (job_id, attempt, session_id, sequence, level, message)
), total AS (
    SELECT job_id, attempt, session_id, max(sequence) AS lines, sum(octet_length(message)) AS bytes
    FROM line GROUP BY job_id, attempt, session_id
), counted AS (
    UPDATE jobmesh.jobs_live job SET log_lines = total.lines, log_bytes = job.log_bytes + total.bytes
    FROM total
    WHERE job.job_id = total.job_id AND job.attempt = total.attempt AND job.session_id IS NOT DISTINCT FROM total.session_id
      AND job.state IN ('RUNNING', 'CANCELLING')
    RETURNING job.job_id
)
INSERT INTO jobmesh.job_logs (job_id, sequence, attempt, "time", level, message)
SELECT line.job_id, line.sequence, line.attempt, clock_timestamp(), line.level, line.message
FROM line JOIN counted USING (job_id)
ON CONFLICT DO NOTHING
