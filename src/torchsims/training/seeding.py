"""Seeds made of several numbers."""


def mix(*numbers: int) -> int:
    """Return one seed out of several numbers, such that near numbers give seeds that have nothing in common."""
    state = 0x9E3779B97F4A7C15
    for number in numbers:  # the finaliser of splitmix64
        state = (state ^ number) * 0xBF58476D1CE4E5B9 % 2**64
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB % 2**64
        state ^= state >> 31
    return state % 2**63
