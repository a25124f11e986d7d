"""Which brokers not to send to for a while, and how they come back."""
