-- Firings that wait give way to a later one. $1 the schedule's uid.
UPDATE jobmesh.firings SET outcome = 'REPLACED', detail = 'a later firing took its place', record_time = clock_timestamp()
WHERE schedule_uid = $1 AND outcome = 'BUFFERED'
RETURNING fire_time
