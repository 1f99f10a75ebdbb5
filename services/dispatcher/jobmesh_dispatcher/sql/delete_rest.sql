-- Deletes some jobs past their retention, and their logs, from the partition of a state that has no
-- day. $1 state, $2 retention, $3 limit.
WITH expired AS (
    SELECT job_id, end_time FROM jobmesh.jobs_history
    WHERE state = $1 AND end_time < now() - $2::interval
      AND tableoid = format('jobmesh.jobs_%s_rest', lower($1::text))::regclass
    LIMIT $3
), gone AS (
    DELETE FROM jobmesh.jobs_history job USING expired
    WHERE job.job_id = expired.job_id AND job.end_time = expired.end_time AND job.state = $1
    RETURNING job.job_id
), logs AS (
    DELETE FROM jobmesh.job_logs USING gone WHERE job_logs.job_id = gone.job_id
)
SELECT count(*) FROM gone
