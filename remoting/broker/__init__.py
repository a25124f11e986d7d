"""What one asks a running broker: over one connection, whether it lives, and who is at its address."""
