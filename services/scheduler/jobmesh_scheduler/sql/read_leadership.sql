-- Who leads, for an observer.
SELECT epoch, counter, holder
FROM jobmesh.leadership
WHERE name = $1
