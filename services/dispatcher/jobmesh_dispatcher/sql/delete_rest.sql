-- Deletes some of the jobs of a rest partition that ended before a time. $1 state, $2 partition, $3 end, $4 limit.
WITH expired AS (
    SELECT job_id, end_time FROM jobmesh.jobs_history
    WHERE state = $1 AND end_time < $3 AND tableoid = format('jobmesh.%I', $2::text)::regclass
    LIMIT $4
), gone AS (
    DELETE FROM jobmesh.jobs_history job USING expired
    WHERE job.job_id = expired.job_id AND job.end_time = expired.end_time AND job.state = $1
    RETURNING 1
)
SELECT count(*) FROM gone
