-- RUNNING -> CANCELLING: asks a handler to stop, under the attempt that was locked. $1 job id, $2
-- attempt, $3 reason.
UPDATE jobmesh.jobs_live job
SET state = 'CANCELLING', reason = 'CANCELLED', cancel_reason = $3, revision = job.revision + 1,
    history = jobmesh.remember(job.history, ROW(job.revision + 1, 'CANCELLING', 'CANCELLED',
        jobmesh.no_earlier(clock_timestamp(), job.history, job.start_time), job.attempt)::jobmesh.state_change)
WHERE job.job_id = $1 AND job.attempt = $2 AND job.state = 'RUNNING'
RETURNING job.job_id, job.attempt, job.state, job.reason, job.revision, job.session_id,
    (job.history[cardinality(job.history)]).time AS end_time
