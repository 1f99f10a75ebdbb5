-- Locks jobs that are QUEUED, in the order of their ids, and tells whether they are held. $1 job ids.
SELECT job_id, state, crashes, hold_reason FROM jobmesh.jobs_live
WHERE job_id = ANY ($1::uuid[]) AND state = 'QUEUED'
ORDER BY job_id
FOR UPDATE
