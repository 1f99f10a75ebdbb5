-- A page of a schedule's firings, the latest first. $1 uid, $2 the time they come before, or NULL,
-- $3 how many.
SELECT * FROM jobmesh.firings
WHERE schedule_uid = $1 AND ($2::timestamptz IS NULL OR fire_time < $2)
ORDER BY fire_time DESC
LIMIT $3
