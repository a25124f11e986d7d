"""Questions that are put to this registry and to others, with the same work for each: `kit/registries`."""
