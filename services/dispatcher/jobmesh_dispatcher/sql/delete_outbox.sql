-- Forgets messages that the broker has acknowledged. $1 ids.
DELETE FROM jobmesh.outbox WHERE id = ANY ($1::bigint[])
