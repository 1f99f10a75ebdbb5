-- QUEUED -> QUEUED: ends the hold of locked jobs. $1 job ids.
UPDATE jobmesh.jobs_live job SET hold_reason = NULL, woken_at = clock_timestamp()
WHERE job.job_id = ANY ($1::uuid[]) AND job.state = 'QUEUED'
