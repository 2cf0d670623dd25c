"""Multi-task training in PyTorch that does not depend on the units of the losses."""
