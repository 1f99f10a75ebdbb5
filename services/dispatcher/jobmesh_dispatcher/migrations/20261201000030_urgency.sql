-- migrate:up

-- How much the wait of a job weighs: its age times its priority, counted from 1. Whoever weighs most goes first: priority 9
-- overtakes what is not ten times as old.
CREATE FUNCTION jobmesh.urgency(priority smallint, queued_at timestamptz, now timestamptz)
RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT greatest(extract(epoch FROM now - queued_at)::float8, 0) * (priority + 1)
$$;

-- migrate:down

DROP FUNCTION jobmesh.urgency(smallint, timestamptz, timestamptz);
