"""Chooses the cases for which a run of the tests has time. The choice depends on the file of costs, the seed, the changed files
and the minutes of the run. It also depends on how much longer than its costs the core has just taken on this machine, so that
the minutes are those of the clock.

The order is: the core; the cases that the changed files affect; a share of the rest. For the shares, all cases are divided
into N bins of about the same load. The remainder of the seed by N is the number of the bin, so any N consecutive seeds run
every case."""
import dataclasses

from runner import costs as costs_file
from runner.cases import fixture_name

# The machine that costs are counted on: two cores, which three cases at once keep busy.
CORES, SLOTS = 2, 3
SHARED_S = 1.0  # cases stay together whose shared fixtures take longer
TOGETHER_S = 40.0  # but no more of them than this


class BudgetError(Exception):
    """The minutes are too few for the core."""


@dataclasses.dataclass
class Chosen:
    """The cases of a run, why, and what was left out."""

    core: list
    touched: list
    rest: list
    left_out: int
    shares: int  # N of the rest
    touched_shares: int  # N of the cases that the changes affect; 1: all of them fit into one run
    seconds: float  # time of all chosen cases on the machine above
    turns: dict  # {case: the number of the share that it draws of its own long lists}

    def cases(self):
        return [*self.core, *self.touched, *self.rest]


class Loads:
    """Seconds that cases take of the machine."""

    def __init__(self, costs):
        self.costs = costs

    @staticmethod
    def load(cost):
        return max(cost.cpu_s / CORES, cost.wall_s / SLOTS)

    def of_case(self, case):
        return self.load(costs_file.cost_of(self.costs, case.name) or costs_file.UNKNOWN)

    def of_fixture(self, name):
        cost = self.costs.get(name)
        return self.load(cost) if cost else 0.0

    def of(self, cases):
        """The load of a set of cases; each shared fixture counts once."""
        fixtures = {fixture_name(case, fixture) for case in cases for fixture in case.fixtures}
        return sum(map(self.of_case, cases)) + sum(map(self.of_fixture, fixtures))


def units(cases, loads):
    """Lists of cases that are run one after the other: those of a file that share costly fixtures, else one case each."""
    groups, out = {}, []
    for case in cases:
        key = tuple(name for name in (fixture_name(case, fixture) for fixture in case.fixtures)
                    if name not in loads.costs or loads.of_fixture(name) >= SHARED_S / SLOTS)
        if key:
            groups.setdefault(key, []).append(case)
        else:
            out.append([case])
    for group in groups.values():
        part, load = [], 0.0
        for case in group:
            if part and load + loads.of_case(case) > TOGETHER_S:
                out.append(part)
                part, load = [], 0.0
            part.append(case)
            load += loads.of_case(case)
        out.append(part)
    return sorted(out, key=lambda unit: (-loads.of(unit), unit[0].name))


def deal(lists, count, loads):
    """`count` bins of about the same load: [(load, [list])]."""
    bins = [[0.0, number, []] for number in range(count)]
    for unit in lists:
        lightest = min(bins)
        lightest[0] += loads.of(unit)
        lightest[2].append(unit)
    return [(load, content) for load, _, content in bins]


def shares(lists, limit_s, loads):
    """Divides the lists into as few bins as possible so that no bin takes longer than the limit, or than the longest list."""
    total = sum(map(loads.of, lists))
    longest = max(map(loads.of, lists), default=0.0)
    count = max(1, int(total // max(limit_s, longest, 1.0)))
    while True:
        bins = deal(lists, count, loads)
        if count >= len(lists) or max((load for load, _ in bins), default=0.0) <= max(limit_s, longest):
            return bins
        count += 1


def flat(lists):
    return [case for unit in lists for case in unit]


def fitting(groups, limit_s, loads):
    """The lists of each group, in turn, for which there is time."""
    out, left = [], limit_s
    for group in groups:
        out.append([])
        for unit in group:
            if loads.of(unit) <= left:
                out[-1].append(unit)
                left -= loads.of(unit)
    return out


def choose(cases, costs, core, touched, minutes, seed, slowness=None):
    """`core` and `touched` are predicates of a case. slowness: by how much longer than its costs the core took; None: not known yet.
    A case that was never measured is taken for one that the changes touch. Raises BudgetError."""
    loads, budget_s = Loads(costs), 60.0 * minutes / (slowness or 1.0)
    of_core = [case for case in cases if core(case)]
    core_s = loads.of(of_core)
    if slowness is not None and core_s >= budget_s:
        return Chosen(of_core, [], [], len(cases) - len(of_core), 1, 1, core_s, {case.name: seed for case in of_core})
    if slowness is None and core_s > budget_s / 2:
        raise BudgetError(f"the core takes {core_s:.0f} s, more than half of {minutes:g} minutes; TEST_MINUTES={core_s / 30 + 0.05:.1f} "
                          f"is the least, {(core_s - budget_s / 2) / 60:.1f} minutes more for the core")
    def first_of_all(case):
        return touched(case) or costs_file.cost_of(costs, case.name) is None

    rest_s = (budget_s - core_s) / 2
    others = [case for case in cases if not core(case)]
    bins = shares(units(others, loads), rest_s, loads)
    first = seed % len(bins)
    of_rest = bins[first][1]
    rest = {case.name for case in flat(of_rest)}
    touched_bins = shares(units([case for case in others if first_of_all(case) and case.name not in rest], loads), rest_s, loads)
    of_touched = touched_bins[seed % len(touched_bins)][1]
    if slowness is not None:
        of_touched, of_rest = fitting([of_touched, of_rest], budget_s - core_s, loads)
        rest = {case.name for case in flat(of_rest)}
    mine = {case.name for case in flat(of_touched)}
    taken_s = loads.of([case for case in others if case.name in rest | mine]) + core_s
    # The next shares use the remaining time.
    for unit in flat([bins[(first + further) % len(bins)][1] for further in range(1, len(bins))]):
        load = loads.of(unit)
        if taken_s + load <= budget_s and not any(case.name in mine for case in unit):
            rest.update(case.name for case in unit)
            taken_s += load
    in_rest = [case for case in others if case.name in rest]
    in_touched = [case for case in others if case.name in mine and case.name not in rest]
    turns = {case.name: seed // len(bins) for case in in_rest}
    turns.update({case.name: seed for case in [*of_core, *in_touched]})
    return Chosen(of_core, in_touched, in_rest, len(cases) - len(of_core) - len(in_touched) - len(in_rest), len(bins), len(touched_bins), taken_s, turns)


def choose_share(cases, costs, touched, share, seed):
    """Chooses the cases that the changes affect, and one in `share` of the others."""
    loads = Loads(costs)
    mine = [case for case in cases if touched(case)]
    others = units([case for case in cases if not touched(case)], loads)
    bins = deal(others, min(share, max(len(others), 1)), loads)
    rest = flat(bins[seed % len(bins)][1])
    turns = {case.name: seed for case in [*mine, *rest]}
    return Chosen([], mine, rest, len(cases) - len(mine) - len(rest), len(bins), 1, loads.of([*mine, *rest]), turns)
