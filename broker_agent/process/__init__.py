"""The process around the agents of one or several brokers."""
