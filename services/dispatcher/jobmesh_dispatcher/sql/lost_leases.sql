-- Leases that are not what the database says any more: their jobs were ended over their runners'
-- heads. $1 job ids, $2 attempts, $3 session ids.
-- No index serves IS NOT DISTINCT FROM: each job is found by its id, never among all that run.
SELECT lease.job_id, lease.attempt, lease.session_id
FROM unnest($1::uuid[], $2::bigint[], $3::uuid[]) AS lease (job_id, attempt, session_id)
LEFT JOIN jobmesh.jobs_live job
    ON job.job_id = lease.job_id AND job.attempt = lease.attempt AND job.session_id IS NOT DISTINCT FROM lease.session_id
       AND job.state IN ('RUNNING', 'CANCELLING')
WHERE job.job_id IS NULL
