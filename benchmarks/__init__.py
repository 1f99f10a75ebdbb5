"""What jobmesh does in a second, beside what PostgreSQL, NATS and gRPC do under it."""
