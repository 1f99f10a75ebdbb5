"""The floors: what the parts under jobmesh do by themselves, in the same run."""
