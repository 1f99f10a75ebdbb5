-- Queues with jobs whose hold has ended without anybody releasing them: a pause that is over, or
-- room under max_running. One index probe for each queue and reason.
SELECT queue.namespace, queue.name, hold.reason, hold.room
FROM jobmesh.queues queue
LEFT JOIN jobmesh.queue_slots slots ON slots.namespace = queue.namespace AND slots.queue = queue.name
CROSS JOIN LATERAL (VALUES
    ('QUEUE_PAUSED', CASE WHEN NOT queue.dispatch_paused THEN 5000 ELSE 0 END),
    ('MAX_RUNNING', CASE WHEN queue.dispatch_paused THEN 0
                         WHEN queue.max_running IS NULL THEN 5000
                         ELSE greatest(queue.max_running - coalesce(slots.running, 0), 0) END)
) AS hold (reason, room)
WHERE hold.room > 0 AND EXISTS (
    SELECT 1 FROM jobmesh.jobs_live job
    WHERE job.namespace = queue.namespace AND job.queue = queue.name AND job.hold_reason = hold.reason)
