"""The health report: what was read, what it means, what to do about it."""
