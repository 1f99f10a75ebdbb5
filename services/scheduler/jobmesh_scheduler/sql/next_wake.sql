-- Seconds until the next schedule has to be looked at; NULL if none has.
SELECT extract(epoch FROM min(wake_time) - clock_timestamp())::float8 AS seconds FROM jobmesh.schedules
WHERE wake_time IS NOT NULL
