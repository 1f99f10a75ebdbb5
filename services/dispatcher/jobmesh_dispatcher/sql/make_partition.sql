-- Makes a day's partition unless that is impossible or done. $1 parent, $2 day.
SELECT jobmesh.make_partition($1, $2)
