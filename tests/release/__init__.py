"""Checks of a release in environments of their own: of the built files, and of other versions of what it needs."""
