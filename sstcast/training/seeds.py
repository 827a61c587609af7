"""Seeds of random numbers that depend on several whole numbers, for instance on seed, epoch and step."""

import numpy as np

BITS = 2**64 - 1


def seed_of(*numbers: int) -> int:
    """Return a seed of 63 bits, as PyTorch's generators take it: a different one for different `numbers`."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))


def order_seed(seed: int, epoch: int) -> int:
    """Return the seed of the order in which an epoch of a forecaster draws its windows.

    It is Python's own hash of the pair, xxHash by Collet (https://xxhash.com) with 64 bits, written out so that no
    version of Python changes it, and runs of earlier versions can be repeated and resumed.
    """
    mixed = 2870177450012600261
    for number in (seed % (2**61 - 1), epoch):
        mixed = (mixed + number * 14029467366897019727) & BITS
        mixed = ((mixed << 31) | (mixed >> 33)) & BITS
        mixed = mixed * 11400714785074694791 & BITS
    return (mixed + (2 ^ 2870177450012600261 ^ 3527539)) % 2**63
