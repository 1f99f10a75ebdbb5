"""The whole mesh on one machine: embedded PostgreSQL and NATS, and the supervisor of `jobmesh dev`.

Every program is started through `tether`, so that none of them outlives the process that started
it, however that process ends. Needs the extra `jobmesh[dev]`.
"""
