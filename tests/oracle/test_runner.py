"""The runner of the tests (tests/run.py): its choice of cases, and the results of cases that fail, hang, die or are skipped."""
import json
import os
import pathlib
import random
import subprocess
import sys
import time

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

import run  # noqa: E402
import table  # noqa: E402
from runner import changes, choice, costs as costs_file, schedule  # noqa: E402
from runner.cases import Case, Cost  # noqa: E402

# ---- the choice --------------------------------------------------------------------------------------------------------


def made_up(count=400, seed=1):
    """Returns cases in ten files, with a costly fixture shared in some, and their costs."""
    chance = random.Random(seed)
    cases, costs = [], {}
    for number in range(count):
        file = f"oracle/test_{number % 10}.py"
        fixtures = ("runs",) if number % 10 < 2 else ()
        cases.append(Case(f"{file}::test[{number}]", "oracle", None, fixtures))
        costs[cases[-1].name] = Cost(chance.expovariate(0.5), chance.expovariate(0.5))
    costs.update({f"oracle/test_{number}.py::@runs": Cost(8.0, 8.0) for number in range(2)})
    return cases, costs


def of_core(case):
    return case.name.endswith(("7]", "77]")) and "test_7" in case.name and case.name < "oracle/test_7.py::test[2"


def no_case(_):
    return False


def choose(seed, minutes=2.0, touched=no_case, slowness=None):
    cases, costs = made_up()
    return choice.choose(cases, costs, of_core, touched, minutes, seed, slowness)


def names(cases):
    return {case.name for case in cases}


def test_a_seed_chooses_the_same_cases():
    assert choose(5) == choose(5)
    assert names(choose(5).rest) != names(choose(6).rest)


def test_consecutive_seeds_run_every_case():
    shares = choose(0).shares
    assert shares > 2
    for first in (0, 17):
        seen = set()
        for seed in range(first, first + shares):
            chosen = choose(seed)
            assert chosen.shares == shares
            seen |= names(chosen.cases())
        assert seen == names(made_up()[0])


@pytest.mark.parametrize("touched", [no_case, lambda case: "test_3" in case.name, lambda case: True], ids=["nothing", "a file", "everything"])
def test_the_budget_is_kept_and_used(touched):
    cases, costs = made_up()
    for seed in range(12):
        chosen = choose(seed, touched=touched)
        assert names(chosen.core) == names(case for case in cases if of_core(case))
        assert len(chosen.cases()) == len(names(chosen.cases())) == len(cases) - chosen.left_out
        assert abs(choice.Loads(costs).of(chosen.cases()) - chosen.seconds) < 30  # fixtures of neighbouring shares are counted twice
        assert 60 < chosen.seconds <= 130, chosen.seconds


def test_what_is_touched_comes_first_and_in_turns():
    """All of it where there is time, else one share after the other."""
    def touched(case):
        return "test_3" in case.name
    for seed in range(4):
        chosen = choose(seed, touched=touched)
        assert chosen.touched_shares == 1 and names(filter(touched, made_up()[0])) <= names(chosen.cases())
    chosen = choose(0, touched=lambda case: True)
    assert chosen.touched_shares > 1


def test_cases_that_share_a_costly_fixture_stay_together():
    cases, costs = made_up()
    lists = choice.units(cases, choice.Loads(costs))
    assert names(sum(lists, [])) == names(cases)
    assert all(len(unit) > 1 and len({case.file for case in unit}) == 1 for unit in lists if unit[0].fixtures)
    assert all(len(unit) == 1 for unit in lists if not unit[0].fixtures)


def test_a_case_that_was_never_measured_runs():
    cases, costs = made_up()
    new = Case("oracle/test_new.py::test", "oracle")
    for seed in range(5):
        chosen = choice.choose([*cases, new], costs, of_core, no_case, 2.0, seed)
        assert new.name in names(chosen.cases())
    assert choice.Loads(costs).of_case(new) == choice.Loads.load(Cost(10.0, 10.0)) == 5.0


@pytest.mark.parametrize("slowness", [0.5, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("touched", [no_case, lambda case: True], ids=["nothing", "everything"])
def test_minutes_are_those_of_the_clock(touched, slowness):
    """A machine on which the core took longer than its costs runs fewer of the others, in the minutes that were given, to a quarter."""
    for seed in range(8):
        chosen = choose(seed, touched=touched, slowness=slowness)
        assert slowness * chosen.seconds < 1.25 * 120, (seed, chosen.seconds)
        assert slowness * chosen.seconds > 0.75 * 120 or slowness > 2, (seed, chosen.seconds)  # lists of 40 s fit no shorter time


def test_a_machine_that_has_time_for_the_core_alone():
    cases, _ = made_up()
    chosen = choose(0, slowness=50.0)
    assert names(chosen.cases()) == names(case for case in cases if of_core(case)) and chosen.left_out == len(cases) - len(chosen.core)


def test_minutes_that_are_too_few_for_the_core():
    with pytest.raises(choice.BudgetError, match=r"the core takes \d+ s, more than half of 0.1 minutes; TEST_MINUTES=\d+\.\d is the least, \d+\.\d minutes more"):
        choose(0, minutes=0.1)


def test_a_share_of_what_did_not_change():
    cases, costs = made_up()
    seen, runs = set(), []
    for seed in range(3):
        chosen = choice.choose_share(cases, costs, lambda case: "test_4" in case.name, 3, seed)
        assert len(chosen.touched) == 40
        runs.append(len(chosen.rest))
        seen |= names(chosen.cases())
    assert seen == names(cases) and max(runs) < 200


# ---- names, costs, what has changed ------------------------------------------------------------------------------------

NAMES = ["unit/test_metrics", "oracle/test_context.py::test_matrix[gpt2]", "oracle/test_context.py::test_matrix_of[2]", "comm/ranks-2"]


@pytest.mark.parametrize("wanted,found", [
    ("unit", [0]), ("unit/test_metrics", [0]), ("oracle/test_context", [1, 2]), ("oracle/test_context.py", [1, 2]), ("oracle/test_context::test_matrix", [1]),
    ("oracle/test_context::test_matrix[[]gpt2]", [1]), ("oracle/test_context::test_matrix[gpt2]", [1]), ("oracle/*::*of*", [2]), ("comm/ranks-*", [3]), ("comm/ranks", []),
    ("context", []), ("oracle/test_metrics", [])])
def test_names(wanted, found):
    assert [number for number, name in enumerate(NAMES) if run.fits(name, wanted)] == found


def test_the_file_of_costs(tmp_path):
    """Cases of a test that differ little share a line."""
    path = str(tmp_path / "costs.json")
    given = {"unit/test_a": Cost(1.5, 2.25, 1), "oracle/test_b.py::test_near[1]": Cost(0.1, 0.2), "oracle/test_b.py::test_near[2]": Cost(0.2, 0.1),
             "oracle/test_b.py::test_far[1]": Cost(1.0, 1.0), "oracle/test_b.py::test_far[2]": Cost(9.0, 5.0, 4), "oracle/test_b.py::@runs": Cost(3.0, 2.0)}
    costs_file.write(given, "about it", path)
    read = costs_file.read(path)
    assert set(json.load(open(path))["costs"]["oracle/test_b.py"]) == {"test_near", "test_far[1]", "test_far[2]", "@runs"}
    for name, cost in given.items():
        found = costs_file.cost_of(read, name)
        assert abs(found.cpu_s - cost.cpu_s) <= 0.06 and abs(found.wall_s - cost.wall_s) <= 0.06, name
    assert costs_file.cost_of(read, "oracle/test_b.py::test_none") is None and costs_file.read(str(tmp_path / "none")) == {}


def git(folder, *words):
    subprocess.run(["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True)


def test_what_has_changed(tmp_path, monkeypatch):
    monkeypatch.delenv("TRIREME_SINCE", raising=False)
    passed = tmp_path / "last-passed"
    assert changes.changed_files(str(tmp_path), str(passed)) == (None, "there is no git history, so all folders count as changed")
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text("last-passed\n")
    for number in range(14):
        (tmp_path / f"file{number}").write_text("text")
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-q", "-m", "c", "--date", "2020-01-01T00:00:00")
    files, words = changes.changed_files(str(tmp_path), str(passed))
    assert files == {f"file{number}" for number in range(1, 14)} and words == "in the last 13 commits"  # all of the last four hours
    monkeypatch.setenv("TRIREME_SINCE", "HEAD~2")
    assert changes.changed_files(str(tmp_path), str(passed))[0] == {"file12", "file13"}
    monkeypatch.setenv("TRIREME_SINCE", "nowhere")
    with pytest.raises(SystemExit, match="TRIREME_SINCE=nowhere is not a commit of"):
        changes.changed_files(str(tmp_path), str(passed))
    monkeypatch.delenv("TRIREME_SINCE")
    changes.remember(str(tmp_path), str(passed))
    assert changes.changed_files(str(tmp_path), str(passed))[0] == set()
    (tmp_path / "file3").write_text("another")
    (tmp_path / "new").write_text("text")
    files, words = changes.changed_files(str(tmp_path), str(passed))
    assert files == {"file3", "new"} and words.endswith("which passed last")


# ---- the schedule ------------------------------------------------------------------------------------------------------

CASES = '''
import os, signal, subprocess, sys, time
import pytest

@pytest.fixture(scope="module", params=[1, 2])
def shared(request):
    with open(os.environ["SHARED"], "a") as f:
        f.write(f"{request.param}\\n")
    return request.param

def test_fine(tmp_path):
    (tmp_path / "file").write_text("text")

@pytest.mark.parametrize("n", range(3))
def test_with_fixture(shared, n):
    subprocess.run(["true"])

def test_wrong():
    print("printed before it failed")
    assert 1 == 2, "one is not two"

@pytest.mark.skip(reason="SKIPPED: there is no such thing")
def test_skipped():
    pass

def test_dies():
    os.kill(os.getpid(), signal.SIGSEGV)

def test_hangs():
    subprocess.Popen(["sleep", "1000.25"], start_new_session=True)
    time.sleep(1000)

def test_after():
    assert os.environ["TRIREME_TEST_TURN"] == "7"
'''


def run_suite(folder, slots=2):
    """All cases of a file: ({item: Result}, fixtures that were set up)."""
    (folder / "suite").mkdir()
    (folder / "suite/test_of.py").write_text(CASES)
    suite = table.Suite("of", str(folder / "suite"))
    environment = {**os.environ, "SHARED": str(folder / "shared"), "TRIREME_TEST_SEED": "7"}
    found = schedule.Suite(suite, str(TESTS.parent), environment, str(folder))
    collected, reason = found.collect()
    assert reason is None and not collected["errors"] and not collected["skipped"]
    cases = [Case(name, "of", None, tuple(fixtures)) for name, fixtures in collected["cases"]]
    results = {}
    todo = schedule.Schedule({"of": found}, environment, str(folder), str(folder), {case.name: Cost(0.1, 0.1) for case in cases},
                             lambda result: results.update({result.case.name.split("::")[1]: result}))
    todo.run(choice.units(cases, choice.Loads({})), slots)
    found.close()
    return results, todo


@pytest.fixture
def short_limit(monkeypatch):
    monkeypatch.setattr(schedule, "AT_LEAST_S", 2.0)


def running(word):
    return subprocess.run(["pgrep", "-f", word], capture_output=True, text=True).stdout.split()


def test_what_becomes_of_pytest_cases(tmp_path, short_limit):
    results, todo = run_suite(tmp_path)
    outcomes = {name: result.outcome for name, result in results.items()}
    wanted = {f"test_with_fixture[{p}-{n}]": "passed" for p in (1, 2) for n in range(3)}
    assert outcomes == {**wanted, "test_fine": "passed", "test_wrong": "failed", "test_skipped": "skipped", "test_dies": "failed", "test_hangs": "failed",
                        "test_after": "passed"}
    assert "one is not two" in results["test_wrong"].text and "printed before it failed" in results["test_wrong"].text
    assert results["test_skipped"].text == "Skipped: SKIPPED: there is no such thing" or "no such thing" in results["test_skipped"].text
    assert results["test_dies"].text == "the process that ran it died"
    assert results["test_hangs"].text == "killed after 2 s, as it seems to hang; it usually takes 0.1 s"
    assert not running("sleep 1000.25")
    assert sorted((tmp_path / "shared").read_text().split()) == ["1", "2"]  # each set up once
    assert sorted(todo.measured) == ["of/test_of.py::@shared[0]", "of/test_of.py::@shared[1]"]
    assert results["test_with_fixture[1-1]"].commands == 1
    assert not list(tmp_path.glob("of/test_fine*/file")) and not todo.broken


@pytest.mark.parametrize("script,expected,outcome", [
    ("exit 0", {}, "passed"), ("exit 3", {}, "failed"), ("exit 3", dict(fails=True), "passed"), ("exit 0", dict(fails=True), "failed"), ("exit 77", {}, "skipped"),
    ("echo one; echo two; exit 1", dict(prints="one.two"), "passed"), ("echo one", dict(prints="two"), "failed"), ("exit 0", dict(skip="there is no such thing"), "skipped"),
    ("setsid sleep SECONDS & sleep SECONDS", {}, "failed")])
def test_what_becomes_of_programs(tmp_path, short_limit, script, expected, outcome):
    seconds = f"1000.{os.getpid()}"  # unique to this process, since other tests run the same program
    case = Case("of/program", "of", table.Program("of/program", ("/bin/sh", "-c", script.replace("SECONDS", seconds)), **expected))
    results = []
    begun = time.monotonic()
    schedule.Schedule({}, dict(os.environ), str(tmp_path), str(tmp_path), {case.name: Cost(0.01, 0.01)}, results.append).run([[case]], 1)
    assert [result.outcome for result in results] == [outcome], results
    assert time.monotonic() - begun < 60
    if "sleep" in script:
        assert not running(f"sleep {seconds}") and "killed after 2 s, as it seems to hang" in results[0].text


def test_a_name_that_no_test_has():
    done = subprocess.run([sys.executable, TESTS / "run.py", "--build", os.path.dirname(os.environ["TRIREME"]), "unit/test_nothing"], capture_output=True, text=True)
    assert done.returncode == 1 and "there is no test of the name unit/test_nothing; tests/run.py --list prints all names" in done.stderr


def test_what_is_left_out_without_the_program_for_tests():
    """Cases on the devices for tests are skipped by name, in the core too; all others are as they were."""
    whole = json.loads((pathlib.Path(os.environ["TRIREME"]).parent / "tests.json").read_text()) | {"python": sys.executable}
    without = whole | {"trireme-test": "/nonexistent/trireme-test", "tools": "/nonexistent"}
    reason = "there is no /nonexistent/trireme-test, which has the devices for tests; make build-tests makes it"
    skipped = {suite.name for suite in table.suites(without, 1) if suite.skip}
    assert skipped == {"guarded", "emulated", "guarded-all", "emulated-all"}
    assert {suite.skip for suite in table.suites(without, 1)} == {"", reason} and not any(suite.skip for suite in table.suites(whole, 1))
    programs = {program.name for program in table.programs(without) if program.skip in (reason, reason.replace("trireme-test", "kernel_check-test", 1))}
    assert programs == {program.name for program in table.programs(whole) if "same-bits" in program.name or "emulated" in program.name}
    cases = [Case(program.name, program.name.split("/")[0], program) for program in table.programs(without)]
    cases += [Case(name, name.split("/")[0]) for name in run.core.CASES if name.startswith("oracle/")]

    class Options:
        names = ()

    run.check_core(cases, without, Options)
    with pytest.raises(SystemExit, match="names cases that are not there: emulated/test_each_layout"):
        run.check_core(cases, whole, Options)
