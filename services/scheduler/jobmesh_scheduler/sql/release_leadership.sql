-- Leave cleanly: the next scheduler that looks may take over at once.
UPDATE jobmesh.leadership
SET holder = NULL,
    counter = counter + 1
WHERE name = $1
  AND epoch = $2
  AND holder = $3
RETURNING counter
