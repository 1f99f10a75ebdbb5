-- Attaches a session, new or known, to this dispatcher under a new attachment. Waits for claims in
-- flight under the old one. $1 session id, $2 attachment, $3 runner id, $4 namespace, $5 dispatcher
-- id, $6 slots, $7 types, $8 queues, $9 version.
INSERT INTO jobmesh.sessions (session_id, attachment, runner_id, namespace, dispatcher_id, slots, types, queues, version)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (session_id) DO UPDATE
SET attachment = excluded.attachment, dispatcher_id = excluded.dispatcher_id, slots = excluded.slots, types = excluded.types,
    queues = excluded.queues, counter = jobmesh.sessions.counter + 1
WHERE jobmesh.sessions.end_time IS NULL
RETURNING session_id
