-- Holds the leader's epoch until the act commits. A takeover waits for it: of a dispatcher that is frozen in the middle
-- of an act for a second, after which the server ends its connection. $1 role, $2 epoch.
SELECT epoch, set_config('idle_in_transaction_session_timeout', '1s', true)
FROM jobmesh.leadership WHERE name = $1 AND epoch = $2 FOR KEY SHARE
