-- QUEUED -> QUEUED: jobs of a queue and priority whose wake-up was written before a time and is
-- gone: they get another one. $1 namespace, $2 queue, $3 priority, $4 before, $5 age in seconds, $6
-- limit.
-- statement_timestamp() is the same for all rows, so that an index on the time can end the search.
WITH asleep AS (
    SELECT job_id FROM jobmesh.jobs_live
    WHERE namespace = $1 AND queue = $2 AND priority = $3 AND state = 'QUEUED' AND hold_reason IS NULL
      AND woken_at < least($4, statement_timestamp() - make_interval(secs => $5))
    ORDER BY woken_at LIMIT $6
    FOR UPDATE SKIP LOCKED
)
UPDATE jobmesh.jobs_live job SET woken_at = clock_timestamp()
FROM asleep WHERE job.job_id = asleep.job_id AND job.state = 'QUEUED'
RETURNING job.namespace, job.queue, job.priority, job.job_id, job.queued_at
