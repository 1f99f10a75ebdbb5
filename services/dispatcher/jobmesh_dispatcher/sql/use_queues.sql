-- Brings queues into being with their first job, and notes which priorities are in use. $1
-- namespaces, $2 names, $3 tokens, $4 priority bits.
INSERT INTO jobmesh.queues AS queue (namespace, name, token, priorities)
SELECT namespace, name, token, priorities
FROM unnest($1::text[], $2::text[], $3::text[], $4::integer[]) AS used (namespace, name, token, priorities)
ORDER BY namespace, name
ON CONFLICT (namespace, name) DO UPDATE SET priorities = queue.priorities | excluded.priorities
