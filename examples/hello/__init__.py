"""The smallest handlers worth watching: ``jobmesh dev --app examples.hello.app:app``."""
