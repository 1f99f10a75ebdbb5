-- Locks jobs that are ready and not held, in the order of their ids. $1 job ids.
SELECT job_id, state, crashes FROM jobmesh.jobs_live
WHERE job_id = ANY ($1::uuid[]) AND state = 'QUEUED' AND hold_reason IS NULL
ORDER BY job_id
FOR UPDATE
