-- Drops a day's partition. $1 parent, $2 day.
SELECT jobmesh.drop_partition($1, $2)
