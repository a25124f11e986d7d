"""What one more client, broker, topic or change costs the server: fitted at some sizes, checked at two."""
