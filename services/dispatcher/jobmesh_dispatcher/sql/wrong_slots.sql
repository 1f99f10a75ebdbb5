-- Limited queues whose count of running jobs is not the number of jobs that hold a slot.
SELECT slots.namespace, slots.queue
FROM jobmesh.queue_slots slots
LEFT JOIN (
    SELECT namespace, queue, count(*) AS running FROM jobmesh.jobs_live
    WHERE session_id IS NOT NULL AND slot GROUP BY namespace, queue
) AS held USING (namespace, queue)
WHERE slots.running <> coalesce(held.running, 0)
