#!/usr/bin/env python3
"""Runs tests: tests/run.py [options] [NAME...]. docs/testing.md explains what it chooses.

A NAME is a group (unit, comm, gpu, floors, oracle, guarded, emulated, ...), GROUP/FILE or GROUP/FILE::ITEM, as a whole, as a
pattern of the shell, or the beginning of an item: oracle/test_context, oracle/test_context::test_matrix, 'comm/ranks-*'.
Without a NAME: what `make test` chooses from. Everything that is named runs, unless --minutes or --share choose among it."""
import argparse
import dataclasses
import fnmatch
import json
import os
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(HERE)
MOST_AGAIN = 3  # more failures than that are not by chance
sys.path.insert(0, HERE)

import core  # noqa: E402
import table  # noqa: E402
import touches  # noqa: E402
from runner import changes, choice, costs as costs_file, schedule  # noqa: E402
from runner.cases import Case, Cost  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--build", default="build", help="the build folder (build)")
    parser.add_argument("--minutes", type=float, help="choose what two quiet cores run in this time")
    parser.add_argument("--share", type=int, metavar="N", help="choose what changed files touch, and one in N of the others")
    parser.add_argument("--core", action="store_true", help="the core alone")
    parser.add_argument("--not-core", action="store_true", help="leave the core out of what is chosen: it has run")
    parser.add_argument("--list", action="store_true", help="print the names of the chosen cases, and run none")
    parser.add_argument("--targets", action="store_true", help="print what has to be built for the chosen programs, and run none")
    parser.add_argument("--stop", action="store_true", help="stop at the first failure")
    parser.add_argument("--again", action="store_true", help="run up to three failed cases once more, alone; those that pass then are listed as unstable")
    parser.add_argument("--measure", action="store_true", help="write what the cases took into tests/costs.json")
    parser.add_argument("--jobs", type=int, help="cases at once (half as many again as there are cores)")
    parser.add_argument("--verbose", action="store_true", help="a line for each case")
    return parser.parse_args()


# ---- names -------------------------------------------------------------------------------------------------------------

def fits(name, wanted):
    """Whether a case's name is one that was asked for."""
    file, _, item = name.partition("::")
    wanted_file, _, wanted_item = wanted.partition("::")
    if "/" not in wanted_file:
        return not wanted_item and file.split("/")[0] == wanted_file
    in_file = file in (wanted_file, wanted_file + ".py") or fnmatch.fnmatchcase(file, wanted_file) or fnmatch.fnmatchcase(file, wanted_file + ".py")
    return in_file and (not wanted_item or item == wanted_item or item.split("[")[0] == wanted_item or fnmatch.fnmatchcase(item, wanted_item))


def wants(case, names):
    further = case.program.groups if case.program else ()
    return any(fits(case.name, name) or name in further for name in names)


def suite_is_wanted(suite, names):
    """Whether any of its cases may be: they are known only when it has been collected."""
    return any(name.split("/")[0].split("::")[0] == suite.name or any(c in name.split("/")[0] for c in "*?[") for name in names)


def files_of(suite, names):
    """The suite with none but the files that are named, which need not all be collected then."""
    wanted = [name.partition("::")[0].split("/")[1] for name in names if name.startswith(suite.name + "/")]
    if any(name == suite.name for name in names) or any(set(word) & set("*?[") for word in wanted):
        return suite
    files = {word if word.endswith(".py") else word + ".py" for word in wanted}
    have = suite.files or {name: "" for name in os.listdir(os.path.join(HERE, suite.folder)) if fnmatch.fnmatch(name, "test_*.py")}
    return dataclasses.replace(suite, files={name: which for name, which in have.items() if name in files})


# ---- choice of cases ---------------------------------------------------------------------------------------------------

def touched_by(build):
    """Returns (a predicate of cases: whether changed files touch a case; a description of the changes)."""
    files, words = changes.changed_files(SOURCE, os.path.join(build["folder"], "last-passed"))
    if files is None:
        return lambda case: True, words
    patterns = touches.patterns_of(files)
    return lambda case: any(fnmatch.fnmatchcase(case.file, pattern) for pattern in patterns), f"{len(files)} files have changed {words}"


class Report:
    """Tells how a run goes, and counts."""

    def __init__(self, total, expected, options, log):
        self.total, self.expected, self.options, self.log = total, expected, options, log
        self.results, self.begun, self.told = [], time.monotonic(), time.monotonic()
        self.schedule, self.unstable = None, []

    def take_failed(self):
        """The cases that failed, which are to run again: their results are forgotten."""
        failed = [result.case for result in self.results if result.outcome == "failed"]
        self.results = [result for result in self.results if result.outcome != "failed"]
        return failed

    def __call__(self, result):
        self.results.append(result)
        line = f"{len(self.results):5d}/{self.total}  {result.outcome:7s} {result.wall_s:7.1f} s  {result.case.name}"
        self.log.write(line + "\n" + (f"{result.text}\n" if result.outcome == "failed" else ""))
        self.log.flush()
        if result.outcome == "failed":
            print(f"{line}\n{result.text.rstrip()}\n", flush=True)
            if self.options.stop:
                self.schedule.stopped = True
        elif self.options.verbose:
            print(line, flush=True)
        elif time.monotonic() - self.told > 30:
            print(f"tests: {len(self.results)} of {self.total} cases after {time.monotonic() - self.begun:.0f} s, {self.count('failed')} failed", flush=True)
        else:
            return
        self.told = time.monotonic()

    def count(self, outcome):
        return sum(result.outcome == outcome for result in self.results)

    def end(self):
        """Says what was skipped, then the line of counts. True: nothing failed."""
        skips = {f"SKIPPED: {result.case.name}: {result.text.strip().splitlines()[-1] if result.text.strip() else 'it says no reason'}"
                 for result in self.results if result.outcome == "skipped"}
        skips |= {f"{result.case.name}: {line}" for result in self.results for line in result.skips if "listed below" not in line}
        if skips:
            print("\nSome tests could not run on this machine:")
            for line in sorted(skips):
                print(f"  {line}")
        failed = [result.case.name for result in self.results if result.outcome == "failed"]
        for name in self.unstable:
            print(f"\nUNSTABLE: {name}: it failed among other cases, and passed when it ran again alone; find out why")
        if failed:
            print("\nThe following tests failed:")
            for name in sorted(failed):
                print(f"  {name}")
        wall = time.monotonic() - self.begun
        print(f"\ntests: {wall:.0f} s, {sum(result.cpu_s for result in self.results):.0f} s of processors in cases")
        print(f"{self.count('passed')} passed, {len(failed)} failed, {self.count('skipped')} skipped")
        return not failed


def find_cases(build, names, seed, environment, temporary):
    """All cases that are asked for; and the suites' processes, by name. Third: results of what could not be collected."""
    cases = [Case(program.name, program.name.split("/")[0], program) for program in table.programs(build)]
    cases = [case for case in cases if wants(case, names)]
    suites, failures = {}, []
    for suite in table.suites(build, seed) if build["running"] else []:
        if suite_is_wanted(suite, names) and suite.skip:
            failures.append((Case(suite.name, suite.name), "skipped", suite.skip))
        elif suite_is_wanted(suite, names):
            only = files_of(suite, names)
            if only.files or not suite.files and only is suite:
                suites[suite.name] = schedule.Suite(only, SOURCE, environment, temporary)
    for suite in suites.values():
        found, reason = suite.collect()
        if found is None:
            failures.append((Case(suite.suite.name, suite.suite.name), "skipped", reason))
            continue
        for name, text in found["errors"]:
            failures.append((Case(name, suite.suite.name), "failed", text))
        for name, text in found["skipped"]:
            failures.append((Case(name, suite.suite.name), "skipped", text))
        cases += [case for case in (Case(name, suite.suite.name, None, tuple(fixtures)) for name, fixtures in found["cases"]) if wants(case, names)]
    return cases, suites, failures


def environment_of(build, seed):
    """Returns the environment of all cases."""
    own = {"TRIREME_TEST_SEED": str(seed), **table.ENVIRONMENT}
    if build["running"]:
        own |= {"TRIREME": build["trireme"], "TRIREME_WITH_TEST_DEVICES": build["trireme-test"], "TRIREME_TOOLS": build["tools"]}
    return {"TRIREME_SHARED": os.path.join(os.path.dirname(SOURCE), "shared"), **os.environ, **own}


def check_core(cases, build, options):
    """Every case of the core is a case, as far as its group was asked for."""
    if options.names:
        return
    have = {case.name for case in cases}
    groups = {case.group for case in cases}
    if build["running"]:
        groups -= {suite.name for suite in table.suites(build, 1) if suite.skip}
    missing = sorted(name for name in core.CASES - have if name.split("/")[0] in groups)
    if missing:
        raise SystemExit(f"tests: tests/core.py names cases that are not there: {', '.join(missing)}")


def select(options, cases, build, costs, seed, slowness=None):
    """The cases of this run. slowness: by how much longer than its costs the core took."""
    check_core(cases, build, options)
    if options.core:
        mine = [case for case in cases if core.has(case.name)]
        return choice.Chosen(mine, [], [], len(cases) - len(mine), 1, 1, choice.Loads(costs).of(mine), {})
    if os.environ.get("TRIREME_LAYOUTS") == "all" and (options.minutes or options.share):
        say("TRIREME_LAYOUTS=all: all cases, with all of their layouts, however long they take")
        options.minutes = options.share = None
    if options.minutes is None and options.share is None:
        return choice.Chosen([], [], cases, 0, 1, 1, choice.Loads(costs).of(cases), {})
    touched, words = touched_by(build)
    say(f"seed {seed} (TRIREME_TEST_SEED); {words}")
    if options.share is not None:
        return choice.choose_share(cases, costs, touched, options.share, seed)
    try:
        return choice.choose(cases, costs, lambda case: core.has(case.name), touched, options.minutes, seed, slowness)
    except choice.BudgetError as error:
        raise SystemExit(f"tests: {error}")


def say(words):
    print(f"tests: {words}", file=sys.stderr, flush=True)


def say_chosen(chosen, costs, slowness=None):
    total = len(chosen.cases())
    say(f"{total} cases: {len(chosen.core)} of the core, {len(chosen.touched)} that the changes touch, {len(chosen.rest)} others; "
        f"{chosen.left_out} are left out; two quiet cores take {chosen.seconds / 60:.1f} minutes" + (f", this machine {chosen.seconds * slowness / 60:.1f}" if slowness else ""))
    if chosen.left_out and chosen.shares > 1:
        say(f"any {chosen.shares} consecutive seeds run every case" + (f"; of those that the changes touch any {chosen.touched_shares}" if chosen.touched_shares > 1 else ""))
    unknown = [case.name for case in chosen.cases() if costs_file.cost_of(costs, case.name) is None]
    if unknown and costs:
        say(f"{len(unknown)} cases have no cost yet and count as {costs_file.UNKNOWN.cpu_s:.0f} s (make test-costs): {', '.join(unknown[:20])}{', ...' if len(unknown) > 20 else ''}")


def targets_of(chosen, build):
    """Of programs that the build makes."""
    paths = {case.program.command[0] for case in chosen.cases() if case.program}
    return sorted(os.path.basename(path) for path in paths if path.startswith(build["folder"] + "/"))


def in_order(chosen, costs):
    """Lists of cases that are run one after the other by one worker: those of the core first, the longest first."""
    loads, of_core = choice.Loads(costs), {case.name for case in chosen.core}
    lists = choice.units(chosen.cases(), loads)
    return sorted(lists, key=lambda unit: (not any(case.name in of_core for case in unit), -loads.of(unit)))


def write_costs(report, measured):
    costs = costs_file.read()
    for result in report.results:
        if result.outcome != "failed":
            costs[result.case.name] = Cost(result.cpu_s, result.wall_s, result.commands)
    for name, all_of in measured.items():
        costs[name] = Cost(*(sum(getattr(cost, key) for cost in all_of) / len(all_of) for key in ("cpu_s", "wall_s")))
    costs_file.write(costs, "what each case takes: [processor seconds, wall seconds with three cases at once on two cores, commands started]; by make test-costs")


def read_build(folder):
    """What CMake wrote about a build folder."""
    try:
        with open(os.path.join(folder, "tests.json")) as f:
            return json.load(f) | {"python": sys.executable}
    except FileNotFoundError:
        raise SystemExit(f"tests: {folder} is not a build folder with tests (there is no tests.json in it); make build makes one")


def main():
    options = arguments()
    build = read_build(os.path.join(SOURCE, options.build))
    seed = int(os.environ.get("TRIREME_TEST_SEED") or changes.number_of_commits(SOURCE) or 1)
    names = options.names or list(table.USUAL)
    costs = costs_file.read()
    with tempfile.TemporaryDirectory(prefix="trireme-tests-", ignore_cleanup_errors=True) as temporary:
        environment = environment_of(build, seed)
        cases, suites, failures = find_cases(build, names, seed, environment, temporary)
        if not cases and not failures:
            raise SystemExit(f"tests: there is no test of the name {' or '.join(options.names)}; tests/run.py --list prints all names")
        slowness = read_slowness(build) if options.not_core else None
        chosen = select(options, cases, build, costs, seed, slowness)
        if options.not_core:
            chosen.core = []
        if options.list or options.targets:
            print("\n".join(targets_of(chosen, build) if options.targets else [case.name for case in chosen.cases()]))
            for suite in suites.values():
                suite.close()
            return 0
        say_chosen(chosen, costs, slowness)
        again = lambda measured: select(options, cases, build, costs, seed, measured)
        return run(options, build, environment, temporary, chosen, suites, failures, costs, again)


def run_again(report, todo):
    """A case that fails by chance should not fail all the others; which one it was is said."""
    failed = report.take_failed()
    print(f"tests: running again, one at a time: {', '.join(case.name for case in failed)}", flush=True)
    todo.run([[case] for case in failed], 1)
    passed = {result.case.name for result in report.results if result.outcome == "passed"}
    report.unstable = sorted(case.name for case in failed if case.name in passed)


SLOWNESS = "last-core.json"  # in the build folder: how slow this machine was when the core ran last


def read_slowness(build):
    """By how much longer than its costs the core took; None: it has not run within the last hour."""
    path = os.path.join(build["folder"], SLOWNESS)
    try:
        if time.time() - os.path.getmtime(path) < 3600:
            with open(path) as f:
                return float(json.load(f)["slowness"])
    except (OSError, ValueError, KeyError):
        pass
    return None


def run_core(todo, chosen, costs, slots, build):
    """Runs the core by itself; returns by how much longer than its costs it took, as a factor within reason."""
    begun, quiet_s = time.monotonic(), choice.Loads(costs).of(chosen.core)
    todo.run(in_order(dataclasses.replace(chosen, touched=[], rest=[]), costs), slots)
    slowness = min(max((time.monotonic() - begun) / max(quiet_s, 1.0), 0.25), 20.0)
    with open(os.path.join(build["folder"], SLOWNESS), "w") as f:
        json.dump({"slowness": slowness}, f)
    return slowness


def run(options, build, environment, temporary, chosen, suites, failures, costs, again):
    """again(slowness): the choice of cases for a machine as slow as that."""
    expected = {case.name: costs_file.cost_of(costs, case.name) or costs_file.UNKNOWN for case in chosen.cases()}
    cores = options.jobs or int(os.environ.get("JOBS") or len(os.sched_getaffinity(0)))
    slots = options.jobs or cores + (cores + 1) // 2
    with open(os.path.join(build["folder"], "last-tests.log"), "w") as log:
        report = Report(len(chosen.cases()), expected, options, log)
        for case, outcome, text in failures:
            report(schedule.Result(case, outcome, text))
        todo = schedule.Schedule(suites, environment, build["folder"], temporary, expected, report, slow=5 if build["sanitize"] else 1, turns=chosen.turns)
        report.schedule = todo
        if chosen.core:
            slowness = run_core(todo, chosen, costs, slots, build)
            if options.minutes is not None and not options.core and not todo.stopped:
                chosen = again(slowness)
                say_chosen(chosen, costs, slowness)
            report.total = len(chosen.cases()) + len(failures)
            expected.update({case.name: costs_file.cost_of(costs, case.name) or costs_file.UNKNOWN for case in chosen.cases()})
            todo.turns = chosen.turns
            chosen = dataclasses.replace(chosen, core=[])
        todo.run(in_order(chosen, costs), slots)
        if options.again and not failures and 0 < report.count("failed") <= MOST_AGAIN and not todo.broken:
            run_again(report, todo)
        for suite in suites.values():
            suite.close()
    if options.measure:
        write_costs(report, todo.measured)
    passed = report.end()
    if passed and options.minutes is not None and not options.names:
        changes.remember(SOURCE, os.path.join(build["folder"], "last-passed"))
    return 0 if passed and not todo.broken else 1


if __name__ == "__main__":
    sys.exit(main())
