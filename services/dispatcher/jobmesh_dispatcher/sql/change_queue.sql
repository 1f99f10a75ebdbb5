-- Writes the settings of a queue that this transaction has locked. $1 namespace, $2 name, $3 max
-- running, $4 max depth, $5 retry policy, $6 timeout, $7 dispatch paused, $8 intake paused, $9
-- note.
UPDATE jobmesh.queues
SET max_running = $3, max_depth = $4, default_retry_policy = $5, default_timeout = $6,
    dispatch_paused = $7, intake_paused = $8, pause_note = $9, revision = revision + 1
WHERE namespace = $1 AND name = $2
RETURNING *
