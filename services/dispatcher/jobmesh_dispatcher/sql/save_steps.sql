-- RUNNING, CANCELLING: keeps what steps came to, under their attempt and session, and counts them;
-- what is stored already stands. Jobs are locked first: an attempt whose lease ends meanwhile stores
-- nothing after the next one has begun. Returns what is new. $1 job ids, $2 attempts, $3 session
-- ids, $4 keys, $5 results, $6 types, $7 how many steps a job may have.
-- No index serves IS NOT DISTINCT FROM: each job is found by its id, never among all that run.
WITH step AS (
    SELECT *, row_number() OVER (PARTITION BY job_id ORDER BY key) AS place
    FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::text[], $5::bytea[], $6::text[])
        AS step (job_id, attempt, session_id, key, result, result_type)
), held AS (
    SELECT job.job_id, job.attempt, job.steps FROM jobmesh.jobs_live job
    JOIN (SELECT DISTINCT job_id, attempt, session_id FROM step) AS lease
        ON job.job_id = lease.job_id AND job.attempt = lease.attempt
           AND job.session_id IS NOT DISTINCT FROM lease.session_id
    WHERE job.state IN ('RUNNING', 'CANCELLING')
    ORDER BY job.job_id
    FOR UPDATE OF job
), fresh AS (
    INSERT INTO jobmesh.job_steps (job_id, key, attempt, result, result_type, "time")
    SELECT step.job_id, step.key, step.attempt, step.result, step.result_type, clock_timestamp()
    FROM step JOIN held ON held.job_id = step.job_id AND held.attempt = step.attempt
    WHERE held.steps + step.place <= $7::integer
    ORDER BY step.job_id, step.key
    ON CONFLICT DO NOTHING
    RETURNING job_id, key
), counted AS (
    UPDATE jobmesh.jobs_live job SET steps = job.steps + number.steps
    FROM (SELECT job_id, count(*) AS steps FROM fresh GROUP BY job_id) AS number
    WHERE job.job_id = number.job_id AND job.state IN ('RUNNING', 'CANCELLING')
)
SELECT job_id, key FROM fresh
