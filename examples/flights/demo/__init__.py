"""`make demo`: the import, a kill, the resumed import, the report; every claim is checked."""
