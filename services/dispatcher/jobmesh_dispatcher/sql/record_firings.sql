-- Records firings of schedules that are locked. One that is recorded and made no job is written over
-- by a caller's wish for it. $1 uids, $2 times, $3 kinds, $4 outcomes, $5 job ids, $6 details,
-- $7 counts, $8 last times.
INSERT INTO jobmesh.firings AS recorded (schedule_uid, fire_time, kind, outcome, job_id, detail, count, last_fire_time)
SELECT * FROM unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::text[], $5::uuid[], $6::text[], $7::integer[],
                     $8::timestamptz[])
ON CONFLICT (schedule_uid, fire_time) DO UPDATE
SET kind = excluded.kind, outcome = excluded.outcome, job_id = excluded.job_id, detail = excluded.detail,
    count = excluded.count, last_fire_time = excluded.last_fire_time, record_time = clock_timestamp()
WHERE recorded.job_id IS NULL AND recorded.outcome <> 'BUFFERED' AND excluded.kind IN ('TRIGGERED', 'BACKFILLED')
RETURNING recorded.*
