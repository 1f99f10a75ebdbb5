-- The leases of a session. $1 session id.
SELECT job_id, attempt, state, namespace, queue, type, priority, failures, crashes, suspect, spec, session_id, slot, start_time, log_lines, log_bytes,
    cancel_reason, claim_time < clock_timestamp() - interval '5 seconds' AS settled
FROM jobmesh.jobs_live WHERE session_id = $1 AND state IN ('RUNNING', 'CANCELLING')
ORDER BY job_id
