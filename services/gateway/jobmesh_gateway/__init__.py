"""The gateway service of jobmesh."""
