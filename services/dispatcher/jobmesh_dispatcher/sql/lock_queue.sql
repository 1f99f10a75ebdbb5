-- Takes a queue's settings for a change: waits for the claims that go by the old ones, and makes
-- new ones wait. $1 namespace, $2 name.
SELECT * FROM jobmesh.queues WHERE namespace = $1 AND name = $2 FOR UPDATE
