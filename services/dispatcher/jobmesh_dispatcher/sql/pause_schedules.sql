-- Pauses schedules, which are locked. $1 uids, $2 why.
UPDATE jobmesh.schedules
SET paused = true, pause_note = $2, revision = revision + 1, wake_time = NULL, next_fire_time = NULL,
    update_time = clock_timestamp()
WHERE uid = ANY ($1::uuid[])
