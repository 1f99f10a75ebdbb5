-- Adds to the counts of limited queues, which this transaction has locked; negative numbers give
-- back. A count that is wrong, and put right later, must keep no job from ending. $1 namespaces,
-- $2 queues, $3 numbers.
UPDATE jobmesh.queue_slots slots SET running = greatest(slots.running + change.number, 0)
FROM unnest($1::text[], $2::text[], $3::bigint[]) AS change (namespace, queue, number)
WHERE slots.namespace = change.namespace AND slots.queue = change.queue
RETURNING slots.namespace, slots.queue, slots.running
