-- SCHEDULED, QUEUED, RUNNING, RETRYING, CANCELLING -> CANCELLED, DEAD: moves jobs to history that
-- end without a report. Jobs are locked already, in the state that is named. $1 job ids, $2 states
-- they leave, $3 new states, $4 reasons, $5 crashes charged, $6 cancel reasons.
WITH burial AS (
    SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::smallint[], $6::text[])
        AS burial (job_id, old_state, new_state, new_reason, crashed, new_cancel_reason)
), gone AS (
    DELETE FROM jobmesh.jobs_live job USING burial
    WHERE job.job_id = burial.job_id AND job.state = burial.old_state
    RETURNING job.*, burial.new_state, burial.new_reason, burial.crashed, burial.new_cancel_reason,
        jobmesh.no_earlier(clock_timestamp(), job.history, job.start_time) AS ended
)
INSERT INTO jobmesh.jobs_history (
    job_id, namespace, queue, type, priority, state, reason, revision, attempt, failures, crashes, spec, payload,
    payload_type, labels, queued_at, runner_id, claim_time, start_time, create_time, cancel_reason, progress, checkpoint,
    checkpoint_type, error, error_type, log_lines, log_bytes, history, attempts, traceparent, schedule_id, parent_job_id, steps,
    deadline, end_time)
SELECT
    job_id, namespace, queue, type, priority, new_state, new_reason, revision + 1, attempt, failures, crashes + crashed, spec, payload,
    payload_type, labels, queued_at, runner_id, claim_time, start_time, create_time,
    coalesce(nullif(new_cancel_reason, ''), cancel_reason), progress, checkpoint, checkpoint_type, error, error_type,
    log_lines, log_bytes,
    jobmesh.remember(history, ROW(revision + 1, new_state, new_reason, ended, attempt)::jobmesh.state_change),
    CASE WHEN session_id IS NULL THEN attempts
         ELSE jobmesh.remember(attempts, ROW(attempt, runner_id, start_time, ended, 'LOST', '', '', true)::jobmesh.attempt) END,
    traceparent, schedule_id, parent_job_id, steps, deadline, ended
FROM gone
RETURNING job_id, attempt, state, reason, revision, namespace, queue, type, priority, error_type, end_time
