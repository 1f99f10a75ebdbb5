-- Notes what is dealt with. Never backwards, and not where somebody changed the schedule meanwhile.
-- $1 uids, $2 revisions, $3 cursors, $4 next fire times, $5 wake times.
UPDATE jobmesh.schedules schedule
SET cursor_time = moved.cursor_time, next_fire_time = moved.next_fire_time, wake_time = moved.wake_time
FROM unnest($1::uuid[], $2::bigint[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[])
    AS moved (uid, revision, cursor_time, next_fire_time, wake_time)
WHERE schedule.uid = moved.uid AND schedule.revision = moved.revision AND NOT schedule.paused
  AND schedule.cursor_time <= moved.cursor_time
