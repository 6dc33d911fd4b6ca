"""The pytest side of the runner: a process that collects the cases of a suite once and forks workers that run them.

    pytest_pool.py SOCKET_FD SUITE_JSON

Collecting imports PyTorch and a hundred files, which costs seconds; a forked worker has all of it at once, and one that was
killed is replaced in no time. Messages are JSON, one a line. The pool says {"cases": [...], "errors": [...], "skipped": [...]}
and then, for each socket that it is sent, forks a worker that answers on it: {"pid": ...}, and for each list of [case, turn] that it is given
{"begin": case} and {"end": case, ...} for each, in order. Fixtures of a module live as long as one list."""
import gc
import json
import os
import resource
import shutil
import signal
import socket
import sys
import time

import pytest
from _pytest.mark import KeywordMatcher
from _pytest.mark.expression import Expression
from _pytest.runner import runtestprotocol

SHARED_SCOPES = ("class", "module", "package")


def processor_time():
    """Seconds of this process and of its children that have ended."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def fixtures_of(item):
    """The fixtures that a case shares with others of its file: names, with the number of their parameter."""
    out = []
    for name in item.fixturenames:
        definitions = item._fixtureinfo.name2fixturedefs.get(name)
        if definitions and definitions[-1].scope in SHARED_SCOPES:
            indices = item.callspec.indices if hasattr(item, "callspec") else {}
            out.append(f"{name}[{indices[name]}]" if name in indices else name)
    return sorted(out)


class Messages:
    """JSON, one message a line, over a socket."""

    def __init__(self, connection):
        self.connection, self.reader = connection, connection.makefile("r")

    def send(self, **message):
        self.connection.sendall((json.dumps(message) + "\n").encode())

    def receive(self):
        """None where the other side is gone."""
        line = self.reader.readline()
        return json.loads(line) if line else None


class Pool:
    """A pytest plugin that takes the place of pytest's loop over the cases."""

    def __init__(self, connection, suite):
        self.connection, self.suite = connection, suite
        self.errors, self.skipped = [], []
        self.fixtures, self.commands = [], 0

    # ---- collecting ----

    def pytest_collectreport(self, report):
        if report.failed:
            self.errors.append([self.name_of(report.nodeid), str(report.longrepr)])
        elif report.skipped:
            self.skipped.append([self.name_of(report.nodeid), report.longrepr[2]])

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items):
        wanted = {file: Expression.compile(which) for file, which in self.suite["files"].items() if which}
        items[:] = [item for item in items
                    if item.path.name not in wanted or wanted[item.path.name].evaluate(KeywordMatcher.from_item(item))]

    def name_of(self, nodeid):
        """GROUP/FILE::ITEM of pytest's FILE::ITEM."""
        return f"{self.suite['name']}/{nodeid}"

    # ---- the loop ----

    def pytest_runtestloop(self, session):
        self.items = {self.name_of(item.nodeid): item for item in session.items}
        session.config._tmp_path_factory.getbasetemp()  # once, before there are workers
        Messages(self.connection).send(cases=[[name, fixtures_of(item)] for name, item in self.items.items()], errors=self.errors, skipped=self.skipped)
        gc.freeze()  # workers share what was collected
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # workers are not waited for
        while True:
            data, descriptors, _, _ = socket.recv_fds(self.connection, 1, 1)
            if not data:
                return True
            if os.fork() == 0:
                self.work(session.config, socket.socket(fileno=descriptors[0]))
                os._exit(0)
            os.close(descriptors[0])

    def work(self, config, connection):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        self.connection.close()
        capture = config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()  # those files are the pool's
        capture.start_global_capturing()
        sys.addaudithook(self.count_commands)
        messages = Messages(connection)
        messages.send(pid=os.getpid())
        while (given := messages.receive()) is not None:
            os.environ.update(given["environment"])
            items = [self.items[name] for name, _ in given["cases"]]
            for item, following, (_, turn) in zip(items, [*items[1:], None], given["cases"]):
                os.environ["TRIREME_TEST_TURN"] = turn  # drawn.py asks for it
                messages.send(begin=self.name_of(item.nodeid))
                messages.send(**self.run(item, following))

    def count_commands(self, event, _):
        self.commands += event == "subprocess.Popen"

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        before, begun = processor_time(), time.monotonic()
        yield
        if fixturedef.scope in SHARED_SCOPES:
            name = fixturedef.argname
            if hasattr(request, "param_index") and fixturedef.params:
                name += f"[{request.param_index}]"
            self.fixtures.append([name, processor_time() - before, time.monotonic() - begun])

    def run(self, item, following):
        """Runs one case. Returns what became of it: outcome, text (of a failure or a skip), times, fixtures' times."""
        self.fixtures, self.commands = [], 0
        before, begun = processor_time(), time.monotonic()
        reports = runtestprotocol(item, log=False, nextitem=following)
        cpu_s, wall_s = processor_time() - before, time.monotonic() - begun
        failed = [report for report in reports if report.failed]
        skipped = [report for report in reports if report.skipped and not hasattr(report, "wasxfail")]
        outcome, text = "passed", ""
        if failed:
            outcome = "failed"
            text = "\n".join(f"{report.longreprtext}\n" + "".join(f"---- {title}\n{content}\n" for title, content in report.sections) for report in failed)
        elif skipped:
            outcome = "skipped"
            text = skipped[0].longrepr[2] if isinstance(skipped[0].longrepr, tuple) else str(skipped[0].longrepr)
        else:
            self.remove_folder(item)
        shared = [sum(fixture[i] for fixture in self.fixtures) for i in (1, 2)]
        return dict(end=self.name_of(item.nodeid), outcome=outcome, text=text, cpu_s=max(cpu_s - shared[0], 0), wall_s=max(wall_s - shared[1], 0),
                    commands=self.commands, fixtures=self.fixtures)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_teardown(self, item):
        item.own_folder = getattr(item, "funcargs", {}).get("tmp_path")
        yield

    @staticmethod
    def remove_folder(item):
        """Removes the files of a passed case, since the checkpoints of thousands of cases would fill a disk."""
        if getattr(item, "own_folder", None) is not None:
            shutil.rmtree(item.own_folder, ignore_errors=True)


def main():
    connection, suite = socket.socket(fileno=int(sys.argv[1])), json.loads(sys.argv[2])
    files = [os.path.join(suite["folder"], file) for file in suite["files"]] or [suite["folder"]]
    options = ["-q", "-p", "no:cacheprovider", "--tb=short", "--continue-on-collection-errors", f"--rootdir={suite['folder']}", f"--basetemp={suite['temporary']}"]
    sys.exit(pytest.main([*options, *files], plugins=[Pool(connection, suite)]))


if __name__ == "__main__":
    main()
