"""How parts are wired into an architecture."""
