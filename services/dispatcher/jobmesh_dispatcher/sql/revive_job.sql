-- SUCCEEDED, CANCELLED, DEAD -> QUEUED: moves a terminal job back, with failures and crashes at 0.
-- Its steps stand, as does its checkpoint. $1 namespace, $2 job id, $3 payload (NULL: the same), $4
-- payload type, $5 seconds after which it expires (NULL: never).
WITH gone AS (
    DELETE FROM jobmesh.jobs_history
    WHERE job_id = $2 AND namespace IS NOT DISTINCT FROM $1 -- which no index serves
      AND state IN ('SUCCEEDED', 'CANCELLED', 'DEAD')
    RETURNING *, jobmesh.no_earlier(clock_timestamp(), history, start_time) AS now
)
INSERT INTO jobmesh.jobs_live (
    job_id, namespace, queue, type, priority, state, reason, revision, attempt, spec, payload, payload_type, labels, queued_at,
    woken_at, runner_id, create_time, checkpoint, checkpoint_type, error, error_type, log_lines, log_bytes, history, attempts,
    traceparent, schedule_id, parent_job_id, steps, deadline, expire_at)
SELECT
    job_id, namespace, queue, type, priority, 'QUEUED', 'RETRIED', revision + 1, attempt, spec, coalesce($3, payload),
    CASE WHEN $3::bytea IS NULL THEN payload_type ELSE $4 END, labels, now, now, runner_id, create_time, checkpoint,
    checkpoint_type, error, error_type, log_lines, log_bytes,
    jobmesh.remember(history, ROW(revision + 1, 'QUEUED', 'RETRIED', now, attempt)::jobmesh.state_change), attempts,
    traceparent, schedule_id, parent_job_id, steps, deadline, least(deadline, now + make_interval(secs => $5))
FROM gone
RETURNING job_id, attempt, state, reason, revision, namespace, queue, type, priority, error_type, queued_at AS end_time
