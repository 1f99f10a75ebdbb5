-- Changes a schedule that is locked. $1 uid, $2 definition, $3 job, $4 overlap policy, $5 failures
-- allowed, $6 owner, $7 paused, $8 pause note, $9 cursor, $10 next fire time, $11 wake time.
UPDATE jobmesh.schedules
SET definition = $2, job = $3, overlap_policy = $4, pause_after_failures = $5, owner = $6,
    resume_time = CASE WHEN paused AND NOT $7 THEN clock_timestamp() ELSE resume_time END,
    paused = $7, pause_note = $8, cursor_time = $9, next_fire_time = $10, wake_time = $11,
    revision = revision + 1, update_time = clock_timestamp()
WHERE uid = $1
RETURNING *
