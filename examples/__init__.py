"""Senders to paste from; the tests run each of them."""
