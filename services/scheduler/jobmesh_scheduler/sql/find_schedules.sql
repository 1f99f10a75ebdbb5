-- A page of schedules by id. $1 namespace, $2 the id they come after, $3 owner or NULL, $4 how many.
SELECT * FROM jobmesh.schedules
WHERE namespace = $1 AND schedule_id COLLATE "C" > $2 AND ($3::text IS NULL OR owner = $3)
ORDER BY schedule_id COLLATE "C"
LIMIT $4
