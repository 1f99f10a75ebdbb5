-- Marks calls as carried out; those that were before are left out. $1 operation ids.
INSERT INTO jobmesh.operations (operation_id)
SELECT operation_id FROM unnest($1::uuid[]) AS operation (operation_id) ORDER BY operation_id
ON CONFLICT DO NOTHING
RETURNING operation_id
