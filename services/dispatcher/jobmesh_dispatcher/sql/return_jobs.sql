-- RUNNING -> RETRYING, SCHEDULED, QUEUED: ends leases of jobs that will run again, under their
-- attempt and session. The jobs are locked already, so that the time is one after the locks. $1 job
-- ids, $2 attempts, $3 session ids, $4 states, $5 reasons, $6 attempt outcomes, $7 failures
-- charged, $8 delays in seconds, $9 errors (JobError), $10 error types, $11 error messages, $12
-- retryable, $13 progress, $14 seconds run, $15 crashes
-- charged, $16 whether a suspect is cleared. What has started once expires at its deadline only.
-- No index serves IS NOT DISTINCT FROM: each job is found by its id, never among all that run.
UPDATE jobmesh.jobs_live job
SET state = report.new_state, reason = report.new_reason, revision = job.revision + 1,
    failures = job.failures + report.failed, crashes = job.crashes + report.crashed, session_id = NULL, slot = false,
    suspect = CASE WHEN report.cleared THEN 0 WHEN report.crashed > 0 THEN greatest(job.suspect, 1) ELSE job.suspect END,
    suspect_seconds = CASE WHEN report.cleared THEN NULL
                           WHEN report.crashed > 0 THEN greatest(job.suspect_seconds, report.run_seconds)
                           ELSE job.suspect_seconds END,
    expire_at = CASE WHEN job.start_time IS NOT NULL OR report.run_seconds > 0 THEN job.deadline ELSE job.expire_at END,
    run_at = CASE WHEN report.new_state <> 'QUEUED'
                  THEN t.now + make_interval(secs => report.delay) END,
    queued_at = CASE WHEN report.new_state = 'QUEUED' THEN t.now END,
    woken_at = CASE WHEN report.new_state = 'QUEUED' THEN t.now END,
    start_time = jobmesh.began(job.start_time, job.claim_time, jobmesh.no_earlier(t.now, job.history, job.start_time), report.run_seconds),
    error = coalesce(report.new_error, job.error),
    error_type = coalesce(nullif(report.new_error_type, ''), job.error_type),
    progress = coalesce(report.new_progress, job.progress),
    history = jobmesh.remember(job.history,
        ROW(job.revision + 1, report.new_state, report.new_reason, jobmesh.no_earlier(t.now, job.history, job.start_time),
            job.attempt)::jobmesh.state_change),
    attempts = jobmesh.remember(job.attempts,
        ROW(job.attempt, job.runner_id,
            jobmesh.began(job.start_time, job.claim_time, jobmesh.no_earlier(t.now, job.history, job.start_time), report.run_seconds),
            jobmesh.no_earlier(t.now, job.history, job.start_time), report.outcome, report.new_error_type, report.error_message,
            report.retryable)::jobmesh.attempt)
FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::smallint[], $8::float8[], $9::bytea[],
            $10::text[], $11::text[], $12::boolean[], $13::bytea[], $14::float8[], $15::smallint[], $16::boolean[])
        AS report (job_id, attempt, session_id, new_state, new_reason, outcome, failed, delay, new_error,
                   new_error_type, error_message, retryable, new_progress, run_seconds, crashed, cleared),
    LATERAL (SELECT clock_timestamp() AS now) AS t
WHERE job.job_id = report.job_id AND job.attempt = report.attempt AND job.session_id IS NOT DISTINCT FROM report.session_id
  AND job.state = 'RUNNING'
RETURNING job.job_id, job.attempt, job.state, job.reason, job.revision, job.namespace, job.queue, job.type, job.priority,
    job.run_at, job.error_type, (job.attempts[cardinality(job.attempts)]).end_time AS end_time
