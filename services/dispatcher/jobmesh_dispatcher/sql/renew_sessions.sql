-- Renews sessions that are still attached here. $1 session ids, $2 attachments.
UPDATE jobmesh.sessions session SET counter = session.counter + 1
FROM unnest($1::uuid[], $2::uuid[]) AS mine (session_id, attachment)
WHERE session.session_id = mine.session_id AND session.attachment = mine.attachment AND session.end_time IS NULL
RETURNING session.session_id, session.attachment
