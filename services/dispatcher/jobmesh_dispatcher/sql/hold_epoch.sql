-- Holds the leader's epoch until the act commits: a takeover waits for it. $1 role, $2 epoch.
SELECT epoch FROM jobmesh.leadership WHERE name = $1 AND epoch = $2 FOR KEY SHARE
