-- Locks jobs parked for want of a runner, the most urgent and oldest first; those that another
-- claim has are passed over. $1 namespace, $2 queues (NULL: all), $3 types, $4 limit.
SELECT job_id, namespace, queue, type, priority, hold_reason FROM jobmesh.jobs_live
WHERE namespace = $1 AND state = 'QUEUED' AND hold_reason = 'NO_RUNNER'
  AND ($2::text[] IS NULL OR queue = ANY ($2::text[])) AND type = ANY ($3::text[])
ORDER BY priority DESC, queued_at
LIMIT $4
FOR UPDATE SKIP LOCKED
