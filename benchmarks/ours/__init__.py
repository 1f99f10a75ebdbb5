"""The figures of jobmesh itself, through real processes."""
