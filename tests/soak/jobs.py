"""A job from outside: starting it, its processes, the moments to disturb it at, and what it leaves."""
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import reinforcement

TRIREME = os.environ.get("TRIREME", "build/trireme")
LIMIT_S = 240  # nothing here takes so long


class Violation(Exception):
    """A promise that was not kept."""


def processes_of(path):
    """{pid: words of the command line} of what works on this run file."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = pathlib.Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(path).encode() in words and int(name) != os.getpid():
            found[int(name)] = [word.decode(errors="replace") for word in words]
    return found


def is_rank(pid):
    try:
        around = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(word.startswith((b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK=")) for word in around)


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Job:
    """One start of the command that the user repeats."""

    def __init__(self, path, ranks, *more, environment=None, limit=None):
        self.path, self.ranks = path, ranks
        self.output = pathlib.Path(json.loads(path.read_text())["output"])
        self.begun_lines = self.lines()
        self.heard = path.parent / f"said-{len(list(path.parent.glob('said-*')))}.txt"
        command = [TRIREME, "train", str(path), *(["-n", str(ranks)] if ranks > 0 else []), *map(str, more)]
        with open(self.heard, "wb") as to:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=to, start_new_session=True,
                                            env={**os.environ, "OMP_WAIT_POLICY": "passive", **(environment or {})}, preexec_fn=limit)

    def said(self):
        return self.heard.read_text(errors="replace")

    def lines(self):
        try:
            return (self.output / "metrics.jsonl").read_bytes().count(b"\n")
        except OSError:
            return 0

    def is_over(self):
        return self.process.poll() is not None

    def rank_pids(self):
        return sorted(pid for pid in processes_of(self.path) if is_rank(pid)) if self.ranks > 0 else [self.process.pid]

    def launcher_pid(self):
        for pid, words in processes_of(self.path).items():
            if pid != self.process.pid and os.path.basename(words[0]).startswith(("mpiexec", "mpirun", "orterun", "prterun", "hydra")):
                return pid
        return None

    def wait(self, limit_s=LIMIT_S):
        try:
            status = self.process.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            self.end_all()
            raise Violation(f"a job did not end within {limit_s} s; it said:\n{self.said()}") from None
        self.wait_until_gone()
        return status

    def wait_until_gone(self, limit_s=30):
        end = time.monotonic() + limit_s
        while (left := processes_of(self.path)) and time.monotonic() < end:
            time.sleep(0.02)
        if left:
            self.end_all()
            raise Violation(f"processes are left {limit_s} s after the end of the job: {left}; it said:\n{self.said()}")

    def end_all(self):
        for number in (signal.SIGKILL, signal.SIGCONT):
            for pid in processes_of(self.path):
                send(pid, number)
        self.process.wait()

    def wait_for(self, condition):
        """Until this holds or the job is over; whether the job still runs."""
        end = time.monotonic() + LIMIT_S
        while not self.is_over() and not condition():
            if time.monotonic() > end:
                self.end_all()
                raise Violation(f"a job made no progress for {LIMIT_S} s; it said:\n{self.said()}")
            time.sleep(0.001)
        return not self.is_over()

    def wait_for_moment(self, chance):
        """A random moment of the job's life, in words."""
        kind = chance.choice(["at its start", "as ranks begin", "at a step", "at a step", "in a save"])
        if kind == "at its start":
            time.sleep(chance.uniform(0, 0.3))
        elif kind == "as ranks begin":
            self.wait_for(lambda: len(self.rank_pids()) >= max(1, self.ranks))
            time.sleep(chance.uniform(0, 0.4))
        elif kind == "at a step":
            more = chance.randint(1, 12)
            self.wait_for(lambda: self.lines() >= self.begun_lines + more)
            time.sleep(chance.choice([chance.uniform(0, 0.02), chance.uniform(0, 0.2)]))
        else:
            self.wait_for(lambda: next((self.output / "checkpoints").glob(".tmp-*"), None) is not None)
            time.sleep(chance.uniform(0, 0.005))
        return kind


# ---- the files of a run


def digest(folder):
    """{file: sum} of the weights and the optimizer's state."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*.safetensors"))}


def checkpoints(output):
    """{step: folder} of those with their final name."""
    return {int(path.name[5:13]): path for path in sorted((output / "checkpoints").glob("step-*")) if path.name[5:].isdigit()}


def course(output, whole=False):
    """[(step, loss, norm, rate, validation loss)], and how many lines are none. `whole`: also all other metrics but times."""
    lines, bad = [], 0
    path = output / "metrics.jsonl"
    for text in path.read_text(errors="replace").split("\n")[:-1] if path.exists() else []:
        try:
            at = json.loads(text)
            rest = [(key, value) for key, value in sorted(at.items()) if whole and not reinforcement.is_time(key)]
            lines.append((at["step"], at["loss"], at["grad_norm"], at["lr"], at.get("validation_loss"), *rest))
        except (ValueError, KeyError, TypeError):
            bad += 1
    return lines, bad


def samples(output):
    """{(step, number of the prompt): line} of samples.jsonl; fails if a line is not whole, occurs twice or is out of order."""
    lines, last, path = {}, (0, 0), output / "samples.jsonl"
    text = path.read_text() if path.exists() else ""
    if text and not text.endswith("\n"):
        raise Violation("the last line of samples.jsonl is not whole")
    for line in text.splitlines():
        at = json.loads(line)
        key = (at["step"], at["number"])
        if key <= last and lines:
            raise Violation(f"samples.jsonl has {key} behind {last}")
        lines[key], last = line, key
    return lines


class Undisturbed:
    """The same run without disturbances; the disturbed run is compared with it."""

    def __init__(self, folder, path, ranks, updates=0):
        """`updates`: those on a batch of completions, after which the run can be saved; 0: it learns from a corpus."""
        job = Job(path, ranks)
        if job.wait() != 0:
            raise Violation(f"the run fails although nothing disturbs it; it said:\n{job.said()}")
        self.digests = {step: digest(at) for step, at in checkpoints(job.output).items()}
        self.disk_bytes = sum(512 * path.stat().st_blocks for path in (job.output / "checkpoints").rglob("*"))
        self.course, bad = course(job.output, updates > 0)
        self.steps = len(self.course)
        self.samples = samples(job.output)
        self.rollouts = reinforcement.rollouts(job.output)
        if bad > 0 or [at[0] for at in self.course] != list(range(1, self.steps + 1)) or len(self.digests) != self.steps // max(updates, 1):
            raise Violation(f"the undisturbed run has {self.steps} lines of metrics, {bad} bad ones, and {len(self.digests)} checkpoints")
        shutil.rmtree(folder)


# ---- snapshots in memory


def mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def snapshots(output):
    """Folders in the nodes' memory that belong to this output (recovery/snapshot.c)."""
    raw = str(pathlib.Path(output).resolve()).encode()
    run = sum(mix((byte + (i + 1) * 0x9E3779B97F4A7C15) % 2**64) for i, byte in enumerate(raw)) % 2**64
    return list(pathlib.Path("/dev/shm").glob(f"trireme-{os.getuid()}-{run:016x}*"))
