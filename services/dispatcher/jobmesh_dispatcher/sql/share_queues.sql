-- Settings of queues, held until the claim commits: a change of them waits, and is seen by every
-- later claim. $1 tokens.
SELECT token, namespace, name, max_running, dispatch_paused FROM jobmesh.queues
WHERE token = ANY ($1::text[])
ORDER BY namespace, name
FOR KEY SHARE
