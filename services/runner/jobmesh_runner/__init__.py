"""The runner service of jobmesh."""
