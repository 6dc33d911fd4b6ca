"""Keeps a number of cases going until all have run: programs, and lists of pytest cases in workers that live on.

Each slot is a thread that takes the next list. A case that takes far longer than it usually does is killed with every process
that it started; these carry a mark in their environment, which none of them can lose by leaving its group or its parent."""
import dataclasses
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import table
from runner.cases import Cost, Result

MARK = "TRIREME_TEST_WORKER"
HANGS_AFTER, AT_LEAST_S = 10, 180  # times the usual time; a slow machine, or a busy one


def marked_processes(mark, leader=None):
    """Processes that were started with a mark in their environment, and those of the session of `leader`."""
    out, wanted = [], f"{MARK}={mark}\0".encode()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                mine = wanted in f.read() + b"\0"
            with open(f"/proc/{pid}/stat") as f:
                session = int(f.read().rpartition(")")[2].split()[3])
        except OSError:
            continue
        if (mine or session == leader) and int(pid) != os.getpid():
            out.append(int(pid))
    return out


def kill_marked(mark, leader=None):
    """Kills the marked processes, and repeats this until none is left, since a process may start another meanwhile."""
    for _ in range(10):
        pids = marked_processes(mark, leader)
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.05)


class Suite:
    """A suite's process that collects its cases and forks workers."""

    def __init__(self, suite, source, environment, temporary):
        self.suite, self.lock = suite, threading.Lock()
        python = os.path.join(source, "build", suite.venv, "bin/python3")
        python = python if os.path.exists(python) else sys.executable
        about = dataclasses.asdict(suite) | {"folder": os.path.join(source, "tests", suite.folder), "temporary": os.path.join(temporary, suite.name)}
        self.connection, theirs = socket.socketpair()
        self.said = tempfile.TemporaryFile()
        self.process = subprocess.Popen([python, os.path.join(source, "tests/runner/pytest_pool.py"), str(theirs.fileno()), json.dumps(about)],
                                        env={**environment, **suite.environment, "TRIREME_TEST_PYTHON": python}, pass_fds=[theirs.fileno()],
                                        stdin=subprocess.DEVNULL, stdout=self.said, stderr=subprocess.STDOUT, start_new_session=True)
        theirs.close()

    def collect(self):
        """Returns the cases that the process found and None, or None and the reason why the tests cannot run."""
        line = self.connection.makefile("r").readline()
        if line:
            return json.loads(line), None
        self.said.seek(0)
        text = self.said.read().decode(errors="replace").strip()
        if "No module named 'pytest'" in text:
            return None, "pytest is missing; scripts/install-deps.sh --tests and scripts/python-env.sh install it"
        raise SystemExit(f"tests: the cases of {self.suite.name} could not be collected:\n{text}")

    def fork(self):
        mine, theirs = socket.socketpair()
        with self.lock:
            socket.send_fds(self.connection, [b"f"], [theirs.fileno()])
        theirs.close()
        return mine

    def close(self):
        self.connection.close()
        self.process.wait()


class Worker:
    """A forked process of a suite, as a slot sees it."""

    def __init__(self, suite, mark):
        self.mark, self.connection = mark, suite.fork()
        self.pending = b""
        self.pid = self.receive(60)["pid"]

    def send(self, **message):
        self.connection.sendall((json.dumps(message) + "\n").encode())

    def receive(self, timeout_s):
        """The next message; None: it is dead. Raises TimeoutError."""
        end = time.monotonic() + timeout_s
        while b"\n" not in self.pending:
            self.connection.settimeout(max(end - time.monotonic(), 0.001))
            try:
                data = self.connection.recv(1 << 16)
            except ConnectionError:
                data = b""
            if not data:
                return None
            self.pending += data
        line, self.pending = self.pending.split(b"\n", 1)
        return json.loads(line)

    def end(self):
        """The worker, and what its cases left running."""
        self.connection.close()
        kill_marked(self.mark, self.pid)


class Schedule:
    """Runs lists of cases; `report(result)` is called for each case, by one thread at a time."""

    def __init__(self, suites, environment, build, temporary, expected, report, slow=1, turns=None):
        self.suites, self.environment, self.build, self.temporary = suites, environment, build, temporary
        self.expected = expected  # {case: Cost}
        self.report, self.slow, self.turns = report, slow, turns or {}
        self.lock, self.numbers = threading.Lock(), itertools.count(1)
        self.measured = {}  # fixtures that were set up: [Cost]
        self.stopped = self.broken = False

    def run(self, lists, slots):
        """Runs lists of cases, in their order, as many at once as there are slots."""
        self.waiting = list(reversed(lists))
        threads = [threading.Thread(target=self.slot, daemon=True) for _ in range(slots)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.5)  # so that Ctrl-C is heard
        except KeyboardInterrupt:
            self.stopped = True
            kill_marked_of_run(self.temporary)
            raise

    def slot(self):
        try:
            self.take_lists()
        except Exception:
            traceback.print_exc()
            self.stopped = self.broken = True

    def take_lists(self):
        workers = {}
        while True:
            with self.lock:
                if not self.waiting or self.stopped:
                    break
                cases = self.waiting.pop()
            if cases[0].program is not None:
                for case in cases:
                    self.tell(self.run_program(case))
            else:
                self.run_pytest(cases, workers)
        for worker in workers.values():
            worker.end()

    def tell(self, result):
        with self.lock:
            self.report(result)

    def limit_s(self, case, slow):
        return max(HANGS_AFTER * self.expected[case.name].wall_s, AT_LEAST_S) * max(slow, self.slow)

    def surroundings(self):
        """The mark of a case's processes, and its folder of Open MPI's sessions: that of a user's jobs is one folder, which the
        last job removes, so that one that begins at that moment would fail."""
        number = next(self.numbers)
        mark, sessions = f"{self.temporary}:{number}", os.path.join(self.temporary, f"mpi-{number}")
        os.makedirs(sessions, exist_ok=True)
        return mark, sessions, {MARK: mark, "OMPI_MCA_orte_tmpdir_base": sessions}

    # ---- pytest ----

    def run_pytest(self, cases, workers):
        group = cases[0].group
        suite = self.suites[group]
        cases = list(cases)
        while cases:
            if group not in workers:
                number = f"{self.temporary}:worker-{next(self.numbers)}"
                workers[group] = Worker(suite, number)
            worker = workers[group]
            _, sessions, environment = self.surroundings()
            worker.send(cases=[[case.name, str(self.turns.get(case.name, self.environment["TRIREME_TEST_SEED"]))] for case in cases], environment={**environment, MARK: worker.mark})
            if not self.follow(worker, cases, suite.suite.slow):
                worker.end()
                del workers[group]
            shutil.rmtree(sessions, ignore_errors=True)

    def follow(self, worker, cases, slow):
        """Reports the results of the worker and removes their cases from the list. Returns False if the worker died or hung; the
        case that it was running is then reported as failed."""
        while cases:
            case, begun = cases[0], time.monotonic()
            limit = self.limit_s(case, slow)
            try:
                message = worker.receive(limit)
                while message is not None and "begin" in message:
                    message = worker.receive(limit)
                why = "the process that ran it died"
            except TimeoutError:
                message, why = None, f"killed after {limit:.0f} s, as it seems to hang; it usually takes {self.expected[case.name].wall_s:.1f} s"
            cases.pop(0)
            if message is None:
                self.tell(Result(case, "failed", why, wall_s=time.monotonic() - begun))
                return False
            with self.lock:
                for name, cpu_s, wall_s in message["fixtures"]:
                    self.measured.setdefault(f"{case.file}::@{name}", []).append(Cost(cpu_s, wall_s))
            self.tell(Result(case, message["outcome"], message["text"], message["cpu_s"], message["wall_s"], message["commands"]))
        return True

    # ---- programs ----

    def run_program(self, case):
        program = case.program
        if program.skip:
            return Result(case, "skipped", program.skip)
        mark, sessions, environment = self.surroundings()
        limit, begun = self.limit_s(case, 1), time.monotonic()
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(program.command, env={**self.environment, **program.environment, **environment}, cwd=self.build, stdin=subprocess.DEVNULL,
                                       stdout=said, stderr=subprocess.STDOUT, start_new_session=True)
            status, cpu_s, hung = self.wait(process, begun + limit)
            if hung:
                kill_marked(mark, process.pid)
                status, cpu_s, _ = self.wait(process, None)
            wall_s = time.monotonic() - begun
            said.seek(0)
            text = said.read().decode(errors="replace")
        shutil.rmtree(sessions, ignore_errors=True)
        skips = tuple(re.findall(r"^(?:\[ +)?SKIPPED.*", text, re.M))
        if hung:
            text += f"\nkilled after {limit:.0f} s, as it seems to hang; it usually takes {self.expected[case.name].wall_s:.1f} s"
        return Result(case, "failed" if hung else self.verdict(program, status, text), text, cpu_s, wall_s, 1, skips)

    @staticmethod
    def wait(process, end):
        """Exit status and processor time of a process and of those that it waited for. Third: it was still there at `end`."""
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG if end is not None else 0)
            if pid != 0:
                process.returncode = os.waitstatus_to_exitcode(status)
                return process.returncode, usage.ru_utime + usage.ru_stime, False
            if time.monotonic() > end:
                return None, 0.0, True
            time.sleep(0.01)

    @staticmethod
    def verdict(program, status, text):
        if program.prints:
            return "passed" if re.search(program.prints, text, re.S) else "failed"
        if status == table.SKIPPED:
            return "skipped"
        return "passed" if (status != 0) == program.fails else "failed"


def kill_marked_of_run(temporary):
    """All processes of a run of the tests."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                mine = f"{MARK}={temporary}:".encode() in f.read()
            if mine and int(pid) != os.getpid():
                os.kill(int(pid), signal.SIGKILL)
        except OSError:
            continue
