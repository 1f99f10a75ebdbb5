-- A schedule. $1 namespace, $2 id.
SELECT * FROM jobmesh.schedules WHERE namespace = $1 AND schedule_id = $2
