-- The attempts of a job, and the one that runs. $1 namespace, $2 job id.
SELECT state, attempt, runner_id, start_time, attempts FROM jobmesh.jobs
WHERE job_id = $2 AND namespace IS NOT DISTINCT FROM $1 -- which no index serves
