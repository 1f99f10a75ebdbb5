-- Locks jobs that are QUEUED, in the order of their ids. A claim that is committed while this waits
-- is seen: the row then drops out. $1 job ids.
SELECT job_id, namespace, queue, type, priority, hold_reason FROM jobmesh.jobs_live
WHERE job_id = ANY ($1::uuid[]) AND state = 'QUEUED'
ORDER BY job_id
FOR UPDATE
