-- Takes a number that only a server that takes writes gives out, and needs the schema to be there.
SELECT pg_current_xact_id() FROM (SELECT count(*) FROM jobmesh.leadership) AS there
