-- Locks one job that is terminal. $1 namespace, $2 job id.
SELECT job_id, state, revision, attempt, spec, deadline <= clock_timestamp() AS too_late FROM jobmesh.jobs_history
WHERE job_id = $2 AND namespace IS NOT DISTINCT FROM $1 -- which no index serves
FOR UPDATE
