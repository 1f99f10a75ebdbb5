-- Lets one transaction at a time make or drop partitions.
SELECT pg_advisory_xact_lock(hashtextextended('jobmesh.partitions', 0))
