-- Firings that waited have their jobs. $1 uids of schedules, $2 times, $3 job ids.
UPDATE jobmesh.firings firing
SET outcome = 'SUBMITTED', job_id = fired.job_id, detail = '', record_time = clock_timestamp()
FROM unnest($1::uuid[], $2::timestamptz[], $3::uuid[]) AS fired (schedule_uid, fire_time, job_id)
WHERE firing.schedule_uid = fired.schedule_uid AND firing.fire_time = fired.fire_time AND firing.outcome = 'BUFFERED'
RETURNING firing.schedule_uid, firing.fire_time, firing.job_id
