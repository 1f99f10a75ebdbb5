-- Brings a queue into being, if there is none. $1 namespace, $2 name, $3 token.
INSERT INTO jobmesh.queues (namespace, name, token) VALUES ($1, $2, $3)
ON CONFLICT DO NOTHING
