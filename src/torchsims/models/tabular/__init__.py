"""Networks and losses for tables: one prediction per row and task, from numbers and codes of categories."""
