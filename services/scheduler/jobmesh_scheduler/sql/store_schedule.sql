-- Makes a schedule, unless there is one of its name. $1 uid, $2 namespace, $3 id, $4 definition,
-- $5 job, $6 overlap policy, $7 failures allowed, $8 owner, $9 paused, $10 cursor, $11 next fire
-- time, $12 wake time.
INSERT INTO jobmesh.schedules (uid, namespace, schedule_id, definition, job, overlap_policy, pause_after_failures, owner,
    paused, cursor_time, next_fire_time, wake_time)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (namespace, schedule_id) DO NOTHING
RETURNING *
