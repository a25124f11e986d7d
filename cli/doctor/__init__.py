"""`doctor`: what was gathered of a registry and all around it, and what it means."""
