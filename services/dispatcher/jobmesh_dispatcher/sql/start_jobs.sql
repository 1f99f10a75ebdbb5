-- RUNNING, CANCELLING: writes down when handlers began, under their attempt and session. $1 job
-- ids, $2 attempts, $3 session ids. From now on they expire at their deadline only.
-- No index serves IS NOT DISTINCT FROM: each job is found by its id, never among all that run.
UPDATE jobmesh.jobs_live job SET start_time = greatest(t.now, job.claim_time), expire_at = job.deadline
FROM unnest($1::uuid[], $2::bigint[], $3::uuid[]) AS lease (job_id, attempt, session_id),
     LATERAL (SELECT clock_timestamp() AS now) AS t
WHERE job.job_id = lease.job_id AND job.attempt = lease.attempt AND job.session_id IS NOT DISTINCT FROM lease.session_id
  AND job.state IN ('RUNNING', 'CANCELLING') AND job.start_time IS NULL
