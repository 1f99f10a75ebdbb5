-- RUNNING, CANCELLING -> SUCCEEDED, CANCELLED, DEAD: moves leased jobs to history, under their
-- attempt and session. $1 job ids, $2 attempts, $3 session ids, $4 states, $5 reasons, $6 attempt
-- outcomes, $7 failures charged, $8 results, $9 result types, $10 errors (JobError), $11 error
-- types, $12 error messages, $13 retryable, $14 progress, $15 seconds run, $16 crashes
-- charged; $17 whether jobs that hold a slot, too.
-- No index serves IS NOT DISTINCT FROM: each job is found by its id, never among all that run.
WITH report AS (
    SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::smallint[], $8::bytea[],
                         $9::text[], $10::bytea[], $11::text[], $12::text[], $13::boolean[], $14::bytea[], $15::float8[], $16::smallint[])
        AS report (job_id, attempt, session_id, new_state, new_reason, outcome, failed, result,
                   result_type, new_error, new_error_type, error_message, retryable, new_progress, run_seconds, crashed)
), gone AS (
    DELETE FROM jobmesh.jobs_live job USING report
    WHERE job.job_id = report.job_id AND job.attempt = report.attempt AND job.session_id IS NOT DISTINCT FROM report.session_id
      AND job.state IN ('RUNNING', 'CANCELLING') AND ($17 OR NOT job.slot)
    RETURNING job.*, report.new_state, report.new_reason, report.outcome, report.failed, report.result, report.result_type,
        report.new_error, report.new_error_type, report.error_message, report.retryable, report.new_progress,
        report.run_seconds, report.crashed, jobmesh.no_earlier(clock_timestamp(), job.history, job.start_time) AS ended
), timed AS (
    SELECT gone.*, jobmesh.began(start_time, claim_time, ended, run_seconds) AS began
    FROM gone
)
INSERT INTO jobmesh.jobs_history (
    job_id, namespace, queue, type, priority, state, reason, revision, attempt, failures, crashes, spec, payload,
    payload_type, labels, queued_at, runner_id, claim_time, start_time, create_time, cancel_reason, progress, checkpoint,
    checkpoint_type, error, error_type, log_lines, log_bytes, history, attempts, traceparent, schedule_id, parent_job_id,
    steps, deadline, slot, result, result_type, end_time)
SELECT
    job_id, namespace, queue, type, priority, new_state, new_reason, revision + 1, attempt, failures + failed, crashes + crashed, spec,
    payload, payload_type, labels, queued_at, runner_id, claim_time, began, create_time, cancel_reason,
    coalesce(new_progress, progress), checkpoint, checkpoint_type,
    CASE WHEN new_state = 'SUCCEEDED' THEN NULL ELSE coalesce(new_error, error) END,
    CASE WHEN new_state = 'SUCCEEDED' THEN '' ELSE coalesce(nullif(new_error_type, ''), error_type) END,
    log_lines, log_bytes,
    jobmesh.remember(history, ROW(revision + 1, new_state, new_reason, ended, attempt)::jobmesh.state_change),
    jobmesh.remember(attempts, ROW(attempt, runner_id, began, ended, outcome, new_error_type, error_message,
                                   retryable)::jobmesh.attempt),
    traceparent, schedule_id, parent_job_id, steps, deadline, slot, result, result_type, ended
FROM timed
RETURNING job_id, attempt, state, reason, revision, end_time, slot, namespace, queue, type, error_type,
    extract(epoch FROM end_time - create_time)::float8 AS age_seconds
