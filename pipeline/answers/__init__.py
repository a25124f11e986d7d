"""Answers about brokers, topics and clients: each a function from DataFrame to DataFrame."""
