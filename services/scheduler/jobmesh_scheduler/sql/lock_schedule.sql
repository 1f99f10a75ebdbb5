-- Locks a schedule to change it, and tells what time it is then. $1 namespace, $2 id.
SELECT *, clock_timestamp() AS now FROM jobmesh.schedules WHERE namespace = $1 AND schedule_id = $2 FOR UPDATE
