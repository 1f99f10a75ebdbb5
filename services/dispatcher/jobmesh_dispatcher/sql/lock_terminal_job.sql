-- Locks one job that is terminal. $1 namespace, $2 job id.
SELECT job_id, state, revision, attempt FROM jobmesh.jobs_history
WHERE namespace = $1 AND job_id = $2
FOR UPDATE
