-- A sign of life of the leader. It changes no key, and so waits for nobody who acts. One that freezes
-- before it commits holds the row for a second: the server ends it then.
UPDATE jobmesh.leadership
SET counter = counter + 1
WHERE name = $1
  AND epoch = $2
  AND holder = $3
RETURNING counter, set_config('idle_in_transaction_session_timeout', '1s', true)
