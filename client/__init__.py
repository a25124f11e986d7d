"""Route lookups, local cache, queue selection, fault tolerance."""
