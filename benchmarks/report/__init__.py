"""The page of what was measured, docs/benchmarks.md, and its plots."""
