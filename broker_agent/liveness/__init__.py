"""Whether a broker lives, and where it can be reached."""
