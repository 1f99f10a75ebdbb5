"""The dispatcher service of jobmesh."""
