-- Forgets some calls that nobody sends again. $1 age, $2 limit.
WITH gone AS (
    DELETE FROM jobmesh.operations
    WHERE operation_id IN (SELECT operation_id FROM jobmesh.operations WHERE create_time < now() - $1::interval LIMIT $2)
    RETURNING 1
)
SELECT count(*) FROM gone
