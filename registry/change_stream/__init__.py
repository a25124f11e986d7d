"""The change stream: the place of a reader in it, and followers that miss no change without saying so."""
