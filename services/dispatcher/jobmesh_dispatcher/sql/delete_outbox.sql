-- Forgets messages that the broker has acknowledged. Does not wait for the disk: one that comes back after
-- a crash of the server is published once more, and claims nothing. $1 ids.
WITH relaxed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
DELETE FROM jobmesh.outbox USING relaxed WHERE id = ANY ($1::bigint[])
