-- Queues that hold as many waiting jobs as they may. Counts no further than the limit.
SELECT queue.namespace, queue.name FROM jobmesh.queues queue
WHERE queue.max_depth IS NOT NULL AND queue.max_depth <= (
    SELECT count(*) FROM (
        SELECT 1 FROM jobmesh.jobs_live job
        WHERE job.namespace = queue.namespace AND job.queue = queue.name
          AND job.state IN ('SCHEDULED', 'QUEUED', 'RETRYING')
        LIMIT queue.max_depth
    ) AS waiting
)
