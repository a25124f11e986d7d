"""The sidecar that keeps one broker's topics and heartbeat in the registry."""
