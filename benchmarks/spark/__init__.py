"""Benchmarks of the data pipeline, on Spark."""
