-- Locks one job that is not terminal. $1 namespace, $2 job id.
SELECT job_id, state, revision, attempt, session_id FROM jobmesh.jobs_live
WHERE job_id = $2 AND namespace IS NOT DISTINCT FROM $1 -- which no index serves
FOR UPDATE
