-- Settings of queues by name. $1 namespace, $2 names (NULL: all), $3 name before the page, $4
-- limit.
SELECT * FROM jobmesh.queues
WHERE namespace = $1 AND ($2::text[] IS NULL OR name = ANY ($2::text[])) AND name > $3
ORDER BY name
LIMIT $4
