"""The mesh that they share ends with the last of them: idle, it would cost all other tests time."""

from tests.support.everyday import client, everyday_mesh, jobs, mesh  # noqa: F401 - fixtures
