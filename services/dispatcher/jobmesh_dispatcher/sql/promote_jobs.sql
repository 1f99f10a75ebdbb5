-- SCHEDULED, RETRYING -> QUEUED: the jobs that have been due longest. $1 limit.
-- statement_timestamp() is the same for all rows, so that an index on the time can end the search.
WITH due AS (
    SELECT job_id FROM jobmesh.jobs_live
    WHERE run_at <= statement_timestamp() AND state IN ('SCHEDULED', 'RETRYING')
    ORDER BY run_at LIMIT $1
    FOR UPDATE SKIP LOCKED
)
UPDATE jobmesh.jobs_live job
SET state = 'QUEUED', reason = 'UNSPECIFIED', revision = job.revision + 1, run_at = NULL, queued_at = t.now, woken_at = t.now,
    history = jobmesh.remember(job.history,
        ROW(job.revision + 1, 'QUEUED', 'UNSPECIFIED', jobmesh.no_earlier(t.now, job.history, job.start_time),
            job.attempt)::jobmesh.state_change)
FROM due, LATERAL (SELECT clock_timestamp() AS now) AS t
WHERE job.job_id = due.job_id AND job.state IN ('SCHEDULED', 'RETRYING')
RETURNING job.job_id, job.attempt, job.state, job.reason, job.revision, job.namespace, job.queue, job.type, job.priority,
    job.error_type, (job.history[cardinality(job.history)]).time AS end_time
