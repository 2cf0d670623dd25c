"""What each extra promises: one program for each, that runs where the extra is installed by itself; `core` has none."""
