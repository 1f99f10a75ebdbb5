-- Owes the broker messages. $1 subjects, $2 bodies.
INSERT INTO jobmesh.outbox (subject, body)
SELECT subject, body FROM unnest($1::text[], $2::bytea[]) AS message (subject, body)
RETURNING id, subject, body
