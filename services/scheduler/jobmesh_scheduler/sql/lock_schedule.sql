-- Locks a schedule to change it, and tells what time it is then; from a scheduler that freezes the server takes
-- the lock after a second. $1 namespace, $2 id.
SELECT *, clock_timestamp() AS now, set_config('idle_in_transaction_session_timeout', '1s', true)
FROM jobmesh.schedules WHERE namespace = $1 AND schedule_id = $2 FOR UPDATE
