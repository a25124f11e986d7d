"""`watch`: a registry as it is now, at a terminal."""
