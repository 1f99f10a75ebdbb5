-- Jobs that wait for a runner for themselves, the oldest first, for as long as they may insist on
-- it. $1 limit.
SELECT job_id, namespace, queue, type, priority FROM jobmesh.jobs_live
WHERE suspect > 1 AND hold_reason = 'NO_RUNNER' AND state = 'QUEUED'
  AND queued_at > clock_timestamp() - interval '60 seconds'
ORDER BY queued_at LIMIT $1
