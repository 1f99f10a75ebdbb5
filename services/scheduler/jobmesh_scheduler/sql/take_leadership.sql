-- A scheduler that freezes before it commits holds the row for a second: the server ends it then.
-- Take over from the state that was observed; another one means that somebody was faster.
-- (name, epoch) is a unique key: changing it waits for transactions that act under the old epoch.
UPDATE jobmesh.leadership
SET epoch = epoch + 1,
    holder = $4,
    counter = counter + 1
WHERE name = $1
  AND epoch = $2
  AND counter = $3
RETURNING epoch, set_config('idle_in_transaction_session_timeout', '1s', true)
