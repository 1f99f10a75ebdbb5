-- migrate:up

-- Days of history. Both functions give up after 200 ms of waiting for a lock (55P03), since whoever ends or reads a job waits
-- behind them; they are called again later. A day is one of UTC.

-- Makes the partition of one day, e.g. ('jobs_dead', '2026-11-30'), and tells whether it did. It does not if there is one, nor
-- if the rest partition holds jobs of that day already: they stay there, and leave it row by row.
CREATE FUNCTION jobmesh.make_partition(parent text, day date)
RETURNS boolean LANGUAGE plpgsql SET lock_timeout = '200ms' AS $$
DECLARE
    name   text        := parent || '_' || to_char(day, 'YYYYMMDD');
    begins timestamptz := day::timestamp AT TIME ZONE 'UTC';
    ends   timestamptz := (day + 1)::timestamp AT TIME ZONE 'UTC';
    taken  boolean;
BEGIN
    IF to_regclass(format('jobmesh.%I', name)) IS NOT NULL THEN
        RETURN false;
    END IF;
    -- Looked for before any lock: to find one while attaching would make everybody wait for the search.
    EXECUTE format('SELECT EXISTS (SELECT FROM jobmesh.%I WHERE end_time >= %L AND end_time < %L)', parent || '_rest', begins, ends)
        INTO taken;
    IF taken THEN
        RETURN false;
    END IF;
    -- Made apart and then attached, which lets the other partitions be written meanwhile.
    EXECUTE format('CREATE TABLE jobmesh.%I (LIKE jobmesh.jobs_history INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', name);
    EXECUTE format('ALTER TABLE jobmesh.%I ATTACH PARTITION jobmesh.%I FOR VALUES FROM (%L) TO (%L)', parent, name, begins, ends);
    RETURN true;
EXCEPTION WHEN check_violation OR duplicate_table THEN
    -- A job of that day was put into the rest partition just now; or somebody made it, and this session had not heard of it.
    RETURN false;
END
$$;

-- Drops the partition of one day, and tells whether there was one.
CREATE FUNCTION jobmesh.drop_partition(parent text, day date)
RETURNS boolean LANGUAGE plpgsql SET lock_timeout = '200ms' AS $$
DECLARE
    name text := parent || '_' || to_char(day, 'YYYYMMDD');
BEGIN
    IF to_regclass(format('jobmesh.%I', name)) IS NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('DROP TABLE jobmesh.%I', name);
    RETURN true;
EXCEPTION WHEN undefined_table THEN
    RETURN false;
END
$$;

-- migrate:down

DROP FUNCTION jobmesh.make_partition;
DROP FUNCTION jobmesh.drop_partition;
