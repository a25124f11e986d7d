"""`python -m demo`: brokers and Redis die and come back while a client keeps sending."""
