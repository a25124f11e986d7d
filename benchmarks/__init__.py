"""Questions about speed, answered by measurement: `python -m benchmarks --list`."""
