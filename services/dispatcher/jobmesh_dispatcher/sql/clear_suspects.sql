-- RUNNING, CANCELLING: clears suspects that have run for longer than they had when their runner was
-- lost, under their attempt and session. $1 job ids, $2 attempts, $3 session ids.
UPDATE jobmesh.jobs_live job SET suspect = 0, suspect_seconds = NULL
FROM unnest($1::uuid[], $2::bigint[], $3::uuid[]) AS lease (job_id, attempt, session_id)
WHERE job.job_id = lease.job_id AND job.attempt = lease.attempt AND job.session_id IS NOT DISTINCT FROM lease.session_id
  AND job.state IN ('RUNNING', 'CANCELLING') AND job.suspect > 0
  AND job.start_time < clock_timestamp() - make_interval(secs => 1.5 * coalesce(job.suspect_seconds, 0) + 1)
RETURNING job.job_id, job.attempt
