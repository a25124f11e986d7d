"""Following the registry: its changes in order, without a gap that is not said."""
