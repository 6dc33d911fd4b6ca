#!/usr/bin/env python3
"""Runs one file of Python tests for CTest: run_pytest.py [--full] [--part K/N] FILE [pytest options].

The interpreter is the project's own environment (build/venv, or build/venv-full with --full) where scripts/python-env.sh
has made it, else the one this script was started with. The exit status is 0 if tests passed, 77 ("skipped" to CTest) if
there was nothing that could run, and anything else if a test failed. Whatever was skipped is named on a line that begins
with SKIPPED.

--part K/N runs the K-th of N parts of the file's tests, so that CTest has several processors work on a long file: every
N-th test, beginning with the K-th. All parts together are the file, whatever is added to it.
"""

import os
import sys

SKIPPED = 77
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def enter_environment(folder):
    """Starts again under the environment's interpreter, unless there is none or this is it."""
    python = os.path.join(ROOT, "build", folder, "bin", "python3")
    if os.path.exists(python) and os.environ.get("TRIREME_TEST_PYTHON") != python:
        os.environ["TRIREME_TEST_PYTHON"] = python
        os.execv(python, [python] + sys.argv)


class Counter:
    """A pytest plugin that counts what became of the tests."""

    def __init__(self):
        self.ran = 0
        self.skipped = []

    def pytest_runtest_logreport(self, report):
        if report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.skipped.append((report.nodeid, reason))
        elif report.when == "call":
            self.ran += 1

    def pytest_collectreport(self, report):
        if report.skipped:
            self.skipped.append((report.nodeid, report.longrepr[2]))


class Part:
    """A pytest plugin that leaves the tests of one part."""

    def __init__(self, text):
        number, parts = map(int, text.split("/"))
        assert 1 <= number <= parts, text
        self.first, self.step = number - 1, parts

    def pytest_collection_modifyitems(self, config, items):
        mine = items[self.first :: self.step]
        config.hook.pytest_deselected(items=[item for item in items if item not in mine])
        items[:] = mine


def main():
    arguments = sys.argv[1:]
    full = bool(arguments) and arguments[0] == "--full"
    if full:
        arguments = arguments[1:]
    plugins = []
    if arguments and arguments[0] == "--part":
        plugins.append(Part(arguments[1]))
        arguments = arguments[2:]
    enter_environment("venv-full" if full else "venv")
    # Tests look for recorded data here and skip what is not there.
    os.environ.setdefault("TRIREME_SHARED", os.path.join(os.path.dirname(ROOT), "shared"))
    try:
        import pytest
    except ImportError as error:
        print(f"SKIPPED: {' '.join(arguments)}: {sys.executable} cannot import pytest ({error}); "
              "install it with scripts/install-deps.sh --tests")
        return SKIPPED
    counter = Counter()
    status = int(pytest.main(["-q", "-p", "no:cacheprovider", "--tb=short"] + arguments, plugins=[counter, *plugins]))
    for name, reason in counter.skipped:
        print(f"SKIPPED: {name}: {reason}")
    nothing_ran = status in (int(pytest.ExitCode.OK), int(pytest.ExitCode.NO_TESTS_COLLECTED)) and counter.ran == 0
    return SKIPPED if nothing_ran else status


if __name__ == "__main__":
    sys.exit(main())
