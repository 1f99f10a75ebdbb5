-- migrate:up

-- A time, but never before the job's last change nor before its handler began: so neither a job's changes nor its attempts run
-- backwards, even if the server's clock is set back in the middle of one.
CREATE FUNCTION jobmesh.no_earlier(now timestamptz, past jobmesh.state_change[], begun timestamptz)
RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT greatest(now, (past[cardinality(past)])."time", begun)
$$;
DROP FUNCTION jobmesh.no_earlier(timestamptz, jobmesh.attempt[]);

-- migrate:down

CREATE FUNCTION jobmesh.no_earlier(now timestamptz, past jobmesh.attempt[])
RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT greatest(now, (past[cardinality(past)]).end_time)
$$;
DROP FUNCTION jobmesh.no_earlier(timestamptz, jobmesh.state_change[], timestamptz);
