-- A page of a job's log: no row without the job, and a row of NULLs without a line.
-- $1 namespace, $2 job id, $3 sequence of the last line before the page, $4 limit.
SELECT line.sequence, line.attempt, line."time", line.level, line.message
FROM (
    SELECT job_id FROM jobmesh.jobs
    WHERE job_id = $2 AND namespace IS NOT DISTINCT FROM $1 -- which no index serves
) AS job
LEFT JOIN LATERAL (
    SELECT * FROM jobmesh.job_logs
    WHERE job_logs.job_id = job.job_id AND job_logs.sequence > $3
    ORDER BY job_logs.sequence
    LIMIT $4
) AS line ON true
ORDER BY line.sequence
