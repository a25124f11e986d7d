"""Verify and rebuild: what is not as the design says, and mending it."""
