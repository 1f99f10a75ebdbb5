-- Schedules that the leader has to look at, the longest overdue first, and what time it is.
-- $1 how many at the most.
SELECT uid, schedule_id, definition, revision, cursor_time, wake_time, clock_timestamp() AS now
FROM jobmesh.schedules
WHERE wake_time <= statement_timestamp() -- clock_timestamp() is for no index: all of them would be read
ORDER BY wake_time
LIMIT $1
