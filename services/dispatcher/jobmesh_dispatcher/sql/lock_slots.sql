-- Takes the counts of limited queues, in the order of their names. $1 namespaces, $2 queues.
SELECT slots.namespace, slots.queue, slots.running FROM jobmesh.queue_slots slots
JOIN unnest($1::text[], $2::text[]) AS wanted (namespace, queue) USING (namespace, queue)
ORDER BY slots.namespace, slots.queue
FOR UPDATE OF slots
