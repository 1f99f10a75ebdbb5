-- QUEUED -> QUEUED: ends the hold of a queue's oldest jobs. $1 namespace, $2 queue, $3 hold reason,
-- $4 limit.
WITH oldest AS (
    SELECT job_id FROM jobmesh.jobs_live
    WHERE namespace = $1 AND queue = $2 AND hold_reason = $3::text AND state = 'QUEUED'
    ORDER BY priority DESC, queued_at LIMIT $4
    FOR UPDATE SKIP LOCKED
)
UPDATE jobmesh.jobs_live job SET hold_reason = NULL, woken_at = clock_timestamp()
FROM oldest WHERE job.job_id = oldest.job_id AND job.state = 'QUEUED'
RETURNING job.namespace, job.queue, job.priority, job.job_id, job.queued_at
