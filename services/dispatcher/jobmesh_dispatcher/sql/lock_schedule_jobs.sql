-- Locks the jobs of a schedule that have not ended. $1 namespace, $2 schedule id.
SELECT job_id, state, attempt, session_id, namespace, queue, slot FROM jobmesh.jobs_live
WHERE namespace = $1 AND schedule_id = $2 AND schedule_id <> ''
ORDER BY job_id
FOR UPDATE
