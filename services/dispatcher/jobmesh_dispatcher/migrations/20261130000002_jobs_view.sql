-- migrate:up

-- A job wherever it is, for reading: live or ended, in the snapshot of one statement. A plain UNION ALL, so that the planner
-- pushes filter, order and limit down to the indexes, and leaves out the half that the states asked for exclude. The sizes
-- are known without fetching what they measure: answers are bounded by them.
CREATE VIEW jobmesh.jobs AS
SELECT
    job_id, namespace, queue, type, priority, state, reason, hold_reason, revision, attempt, failures, crashes,
    spec, payload, payload_type, labels, run_at, queued_at, session_id, runner_id, claim_time, start_time, create_time,
    cancel_reason, progress, checkpoint, checkpoint_type, error, error_type, log_lines, log_bytes, history, attempts,
    traceparent, schedule_id, parent_job_id,
    NULL::bytea AS result, NULL::text AS result_type, NULL::timestamptz AS end_time,
    octet_length(spec) + coalesce(octet_length(progress), 0) + coalesce(octet_length(error), 0) AS basic_bytes,
    octet_length(payload) + coalesce(octet_length(checkpoint), 0) + pg_column_size(history) AS further_bytes
FROM jobmesh.jobs_live
UNION ALL
SELECT
    job_id, namespace, queue, type, priority, state, reason, hold_reason, revision, attempt, failures, crashes,
    spec, payload, payload_type, labels, run_at, queued_at, session_id, runner_id, claim_time, start_time, create_time,
    cancel_reason, progress, checkpoint, checkpoint_type, error, error_type, log_lines, log_bytes, history, attempts,
    traceparent, schedule_id, parent_job_id,
    result, result_type, end_time,
    octet_length(spec) + coalesce(octet_length(progress), 0) + coalesce(octet_length(error), 0) AS basic_bytes,
    octet_length(payload) + coalesce(octet_length(checkpoint), 0) + pg_column_size(history) + coalesce(octet_length(result), 0) AS further_bytes
FROM jobmesh.jobs_history;

-- migrate:down

DROP VIEW jobmesh.jobs;
