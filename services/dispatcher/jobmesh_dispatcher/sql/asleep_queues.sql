-- For each queue and priority, when the oldest wake-up was written of a job that is ready and not
-- held: if it is long ago, it may have vanished. One index probe for each. $1 age in seconds.
SELECT queue.namespace, queue.name, queue.token, priority, oldest.woken_at
FROM jobmesh.queues queue
CROSS JOIN generate_series(0, 9) AS priority
CROSS JOIN LATERAL (
    SELECT woken_at FROM jobmesh.jobs_live job
    WHERE job.namespace = queue.namespace AND job.queue = queue.name AND job.priority = priority.priority
      AND job.state = 'QUEUED' AND job.hold_reason IS NULL
    ORDER BY woken_at LIMIT 1
) AS oldest
WHERE queue.priorities >> priority & 1 = 1 AND oldest.woken_at < clock_timestamp() - make_interval(secs => $1)
