-- A sign of life of the leader. It changes no key, and so waits for nobody who acts.
UPDATE jobmesh.leadership
SET counter = counter + 1
WHERE name = $1
  AND epoch = $2
  AND holder = $3
RETURNING counter
