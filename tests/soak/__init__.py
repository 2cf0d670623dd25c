"""Long random tests: seeded programs that try to break a promise, case after case. `make soak` runs them all."""
