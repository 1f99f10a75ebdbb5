-- What is stored of steps, for those whose lease holds; NULLs where nothing is. $1 job ids, $2
-- attempts, $3 session ids, $4 keys.
-- No index serves IS NOT DISTINCT FROM: each job is found by its id, never among all that run.
SELECT wanted.job_id, wanted.attempt, wanted.key, step.result, step.result_type
FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::text[]) AS wanted (job_id, attempt, session_id, key)
JOIN jobmesh.jobs_live job
    ON job.job_id = wanted.job_id AND job.attempt = wanted.attempt
       AND job.session_id IS NOT DISTINCT FROM wanted.session_id AND job.state IN ('RUNNING', 'CANCELLING')
LEFT JOIN jobmesh.job_steps step ON step.job_id = wanted.job_id AND step.key = wanted.key
