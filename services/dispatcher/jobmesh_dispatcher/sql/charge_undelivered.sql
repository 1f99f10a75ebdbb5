-- QUEUED -> QUEUED: charges jobs whose wake-up killed its claimers each time, and notes their next
-- wake-up. Jobs are locked already. $1 job ids.
UPDATE jobmesh.jobs_live SET crashes = crashes + 1, woken_at = clock_timestamp()
WHERE job_id = ANY ($1::uuid[]) AND state = 'QUEUED'
RETURNING job_id, namespace, queue, priority, state
