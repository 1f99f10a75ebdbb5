"""Programs that use jobmesh as its users do."""
