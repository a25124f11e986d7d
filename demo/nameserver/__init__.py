"""The name server demo: real brokers, a real producer and consumer, and fronts that are killed on purpose."""
