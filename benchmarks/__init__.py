"""Questions about speed, answered by measurement: `python -m benchmarks --list`.

A module here is a question, and one in `spark` a question about the data pipeline; `kit` is what they share.
"""
