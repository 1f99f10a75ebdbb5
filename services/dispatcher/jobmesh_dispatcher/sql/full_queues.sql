-- Queues that hold as many waiting jobs as they may. Counts no further than the limit, each kind of
-- waiting through an index of its own.
SELECT queue.namespace, queue.name FROM jobmesh.queues queue
WHERE queue.max_depth IS NOT NULL AND queue.max_depth <= (
    SELECT count(*) FROM (
        SELECT 1 FROM jobmesh.jobs_live job
        WHERE job.namespace = queue.namespace AND job.queue = queue.name AND job.state = 'QUEUED' AND job.hold_reason IS NULL
        UNION ALL
        SELECT 1 FROM jobmesh.jobs_live job
        WHERE job.namespace = queue.namespace AND job.queue = queue.name AND job.hold_reason IS NOT NULL
        UNION ALL
        SELECT 1 FROM jobmesh.jobs_live job
        WHERE job.namespace = queue.namespace AND job.queue = queue.name AND (job.run_at IS NOT NULL) IS TRUE
        LIMIT queue.max_depth
    ) AS waiting
)
