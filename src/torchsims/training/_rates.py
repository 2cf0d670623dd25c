__all__ = ["rate_factor"]


def rate_factor(step: int, steps: int, warmup: float) -> float:
    """Return the share of the learning rate at a step: up linearly for the first ``warmup`` of all, then down to zero.

    Example:
        >>> [round(rate_factor(step, 10, 0.2), 3) for step in range(10)]
        [0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125]
    """
    rise = round(warmup * steps)
    return (step + 1) / rise if step < rise else (steps - step) / (steps - rise)
