"""The share of a long list that one case has time for, another one in the next turn.

Turns are numbers: TRIREME_TEST_TURN, which the runner gives each case so that consecutive runs of that case have consecutive
numbers, else TRIREME_TEST_SEED. The same number draws the same again. TRIREME_LAYOUTS=all takes every element (`make
test-full`); few is a smaller share, which those who ask for it choose."""
import os
import random

WHICH = os.environ.get("TRIREME_LAYOUTS", "")
SEED = os.environ.get("TRIREME_TEST_SEED", "1")


def turn():
    return int(os.environ.get("TRIREME_TEST_TURN", SEED))


def shuffled(cases, what):
    """In an order of its own, which is always the same: neighbours in a list are alike, and are not to be drawn together."""
    cases = list(cases)
    random.Random(what).shuffle(cases)
    return cases


def drawn(cases, every, what):
    """One in `every` of the cases, in their order; `every` consecutive turns draw all. `what` names the list."""
    cases = list(cases)
    if WHICH == "all":
        return cases
    every = max(min(every, len(cases)), 1)
    mine = shuffled(range(len(cases)), what)[turn() % every :: every]
    return [cases[place] for place in sorted(mine)]


def drawn_count(cases, count, what):
    """`count` of the cases; consecutive turns go on where the last one ended."""
    cases = shuffled(cases, what)
    return cases if WHICH == "all" else [cases[(turn() * count + i) % len(cases)] for i in range(min(count, len(cases)))]
