"""The paper's synthetic tables and figures, one file each, and the runner they share."""
