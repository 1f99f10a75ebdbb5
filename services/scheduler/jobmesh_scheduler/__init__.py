"""The scheduler service of jobmesh."""
