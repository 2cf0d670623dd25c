"""Networks and losses for dense prediction: one output per pixel and task."""
