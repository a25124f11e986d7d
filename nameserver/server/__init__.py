"""Sockets of the front: connections, limits, TLS, the PROXY protocol."""
