-- The attempts of a job, and the one that runs. $1 namespace, $2 job id.
SELECT state, attempt, runner_id, start_time, attempts FROM jobmesh.jobs
WHERE namespace = $1 AND job_id = $2
