-- What dispatchers need to know of all queues. Small: one row a queue.
SELECT namespace, name, token, priorities, max_depth, default_retry_policy, default_timeout, dispatch_paused, intake_paused
FROM jobmesh.queues
