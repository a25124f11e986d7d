"""The registries that are compared: a server each, and sessions that do the same work with it."""
