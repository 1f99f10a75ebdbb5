"""Whose jobs a call is about."""

from __future__ import annotations

# Until callers bring credentials, everybody works in one namespace.
DEFAULT = "default"
