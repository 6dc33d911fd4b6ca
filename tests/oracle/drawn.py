"""The share of a long list of cases that a run of the tests has time for, another one each time.

scripts/test.sh draws TRIREME_TEST_SEED and prints it: the same seed draws the same cases again. TRIREME_LAYOUTS=all takes every
case (`make test-full`); few is a share of its own, which those who ask for it choose."""
import os
import random

import pytest

WHICH = os.environ.get("TRIREME_LAYOUTS", "")
SEED = os.environ.get("TRIREME_TEST_SEED", "1")


def drawn(cases, every, what):
    """One in so many of the cases, in their order; `what` (the test) makes its draw another than those of its neighbours."""
    cases = list(cases)
    if WHICH == "all":
        return cases
    places = random.Random(f"{SEED} {what}").sample(range(len(cases)), -(-len(cases) // every))
    return [cases[place] for place in sorted(places)]


def some_of(every):
    """Marks a test with parameters: of its cases one in so many is run."""
    return pytest.mark.drawn(every)


def leave_drawn(items):
    """The items of a run: those of tests that are so marked, as drawn. Other parts of a file's tests draw the same."""
    cases = {}
    for item in items:
        if item.get_closest_marker("drawn"):
            cases.setdefault(item.nodeid.split("[")[0], []).append(item)
    left_out = set()
    for name, mine in cases.items():
        kept = drawn(mine, mine[0].get_closest_marker("drawn").args[0], name.split("/")[-1])
        left_out.update(item for item in mine if item not in kept)
    return left_out
