-- Locks the leases of a session that has ended, or some of them, in the order of their ids. $1
-- session id, $2 job ids (NULL: all).
SELECT job_id, attempt, state, namespace, queue, type, priority, crashes, suspect, slot, claim_time, start_time IS NOT NULL AS started
FROM jobmesh.jobs_live
WHERE session_id = $1 AND state IN ('RUNNING', 'CANCELLING') AND ($2::uuid[] IS NULL OR job_id = ANY ($2::uuid[]))
ORDER BY job_id
FOR UPDATE
