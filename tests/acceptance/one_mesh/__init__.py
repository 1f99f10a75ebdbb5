"""Tests that share a mesh and leave it as they found it."""
