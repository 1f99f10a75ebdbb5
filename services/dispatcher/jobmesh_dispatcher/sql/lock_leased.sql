-- Locks jobs that are still leased as their reports say, in the order of their ids; how long each
-- has until its deadline.
-- $1 job ids, $2 attempts, $3 session ids.
-- No index serves IS NOT DISTINCT FROM: each job is found by its id, never among all that run.
SELECT job.job_id, job.attempt, job.state, job.namespace, job.queue, job.slot,
    extract(epoch FROM job.deadline - clock_timestamp())::float8 AS seconds_left
FROM jobmesh.jobs_live job
JOIN unnest($1::uuid[], $2::bigint[], $3::uuid[]) AS lease (job_id, attempt, session_id)
    ON job.job_id = lease.job_id AND job.attempt = lease.attempt AND job.session_id IS NOT DISTINCT FROM lease.session_id
WHERE job.state IN ('RUNNING', 'CANCELLING')
ORDER BY job.job_id
FOR UPDATE OF job
