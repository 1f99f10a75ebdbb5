-- Messages whose dispatcher did not publish them in time. $1 age in seconds, $2 limit.
SELECT id, subject, body FROM jobmesh.outbox
WHERE create_time < clock_timestamp() - make_interval(secs => $1)
ORDER BY id LIMIT $2
