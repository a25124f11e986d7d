"""Where the servers of a registry are, and how they are spoken to."""
