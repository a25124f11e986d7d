"""Attempts at an operation on one broker after another, each measured and remembered."""
