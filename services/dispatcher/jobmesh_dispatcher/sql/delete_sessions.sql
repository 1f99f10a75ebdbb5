-- Forgets some sessions that ended long ago. $1 age, $2 limit.
WITH gone AS (
    DELETE FROM jobmesh.sessions
    WHERE session_id IN (SELECT session_id FROM jobmesh.sessions WHERE end_time < now() - $1::interval LIMIT $2)
    RETURNING 1
)
SELECT count(*) FROM gone
