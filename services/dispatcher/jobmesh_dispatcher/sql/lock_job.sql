-- Locks one job that is not terminal. $1 namespace, $2 job id.
SELECT job_id, state, revision, attempt, session_id FROM jobmesh.jobs_live
WHERE namespace = $1 AND job_id = $2
FOR UPDATE
