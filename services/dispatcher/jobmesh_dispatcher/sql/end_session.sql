-- Ends a session, unless it moved to another attachment, or was renewed since its counter was read.
-- Changes the attachment, so that it waits for claims in flight. $1 session id, $2 attachment, $3
-- counter (NULL: any), $4 reason.
UPDATE jobmesh.sessions SET end_time = clock_timestamp(), end_reason = $4, attachment = gen_random_uuid()
WHERE session_id = $1 AND attachment = $2 AND end_time IS NULL AND ($3::bigint IS NULL OR counter = $3)
RETURNING slots
