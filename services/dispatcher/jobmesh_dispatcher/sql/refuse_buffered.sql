-- Refuses a firing that waited and cannot be carried out. $1 uid of its schedule, $2 its time, $3 why.
UPDATE jobmesh.firings
SET outcome = 'REFUSED', detail = $3, record_time = clock_timestamp()
WHERE schedule_uid = $1 AND fire_time = $2 AND outcome = 'BUFFERED'
