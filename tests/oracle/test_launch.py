"""The supervisor of the ranks that `-n` starts: error messages, signals at any moment, stopped processes, crashes, remains of killed
jobs. No test depends on exact times: whenever a signal arrives, the outcome is one of those that are allowed.

Starts that mostly wait run at the same time, each in a folder of its own.

TRIREME_STARTS=500 makes 500 failing starts, and as many interrupted ones, instead of 20; TRIREME_LOAD=4 runs 4 busy loops
at the same time."""
import concurrent.futures
import contextlib
import ctypes
import json
import mmap
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time

import pytest
from parity import TRIREME, trireme, yaml_of

pytestmark = pytest.mark.skipif(shutil.which("mpiexec") is None, reason="SKIPPED: there is no mpiexec")
MODEL = dict(family="gpt2", num_layers=4, hidden_size=32, num_heads=4, vocab_size=257, max_sequence=32)
STARTS = int(os.environ.get("TRIREME_STARTS", 20))
LOAD = int(os.environ.get("TRIREME_LOAD", 1))
REQUESTS = [signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU, signal.SIGALRM]  # of schedulers, which repeat them


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    text = "".join(f"Line {i}: the rowers pull {i * 7919 % 1000} times.\n" for i in range(500))
    (folder / "text.txt").write_text(text)
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt")
    return folder / "data"


@pytest.fixture(scope="module")
def spoiled(corpus, tmp_path_factory):
    """A corpus with a token beyond the vocabulary in its midst."""
    folder = tmp_path_factory.mktemp("spoiled")
    for file in corpus.iterdir():
        shutil.copy(file, folder)
    raw = bytearray((folder / "train.bin").read_bytes())
    at = len(raw) // 6 * 2
    raw[at : at + 2] = struct.pack("<H", 60000)
    (folder / "train.bin").write_bytes(raw)
    (folder / "train.corpus.json").unlink()  # which would tell before any rank has read it
    return folder


def side_by_side(function, cases, most=4):
    """Calls the function with each case, several at a time. The first failure, in the order of the cases, is that of the test."""
    with concurrent.futures.ThreadPoolExecutor(most) as pool:
        for future in [pool.submit(function, case) for case in cases]:
            future.result()


def write_run(folder, corpus, steps=100000, **more):
    folder.mkdir(exist_ok=True)
    run = dict(model=MODEL, data=dict(train=str(corpus / "train"), sequence=32), layout=dict(micro_batch=1),
               optimizer=dict(global_batch=6, steps=steps, lr=1e-3, warmup=4), checkpoint=dict(every=0), seed=5,
               output=str(folder / "run"))
    for key, value in more.items():
        run[key] = {**run[key], **value} if isinstance(run.get(key), dict) else value
    path = folder / "run.yaml"
    path.write_text(yaml_of(run))
    return path


@contextlib.contextmanager
def busy(loops):
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def start(*words, **options):
    return subprocess.Popen([TRIREME, "train", *map(str, words)], stderr=subprocess.PIPE, text=True, **options)


def processes_of(path):
    """Those that work on this run, oldest first: the parent, the launcher and its helpers, the ranks."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if str(path).encode() in open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0"):
                found.append(int(pid))
    return sorted(found)


def launchers_of(path):
    """By its own name: a process that is to become something else has its parent's words until then."""
    found = []
    for pid in processes_of(path):
        with contextlib.suppress(OSError):
            if b"mpiexec" in open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")[0]:
                found.append(pid)
    return found


def rank_of_process(pid):
    words = open(f"/proc/{pid}/environ", "rb").read().split(b"\0")
    found = [w.split(b"=")[1] for w in words if w.startswith((b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK="))]
    return int(found[0]) if found else None


def ranks_of(path):
    found = {}
    for pid in processes_of(path):
        with contextlib.suppress(OSError):
            if rank_of_process(pid) is not None:
                found[rank_of_process(pid)] = pid
    return found


def num_threads(pid):
    with contextlib.suppress(OSError):
        return int(re.search(r"Threads:\s*(\d+)", open(f"/proc/{pid}/status").read())[1])
    return 0


def wait_for(condition, process=None):
    while not condition() and (process is None or process.poll() is None):
        time.sleep(0.01)


def wait_for_step(folder, process, step=1):
    path = folder / "run/metrics.jsonl"
    wait_for(lambda: path.exists() and path.read_text().count("\n") >= step, process)


def failures(errors):
    return [line for line in errors.splitlines() if line.startswith("trireme: ")]


def last_step(folder):
    return json.loads((folder / "run/metrics.jsonl").read_text().splitlines()[-1])["step"]


# ---- error messages -------------------------------------------------------------------------------------------------


def test_last_words(tmp_path, corpus, spoiled):
    """Failing starts beside busy loops: every one says the first cause, once, with its status."""
    (tmp_path / "file").write_text("")
    bad_id = r"\S+train.bin: the token at position \d+ is 60000, outside the model's vocabulary of 257; .*"
    diverging = [w for key in ("optimizer.lr=1e10", "optimizer.warmup=0", "optimizer.max_bad_steps=2") for w in ("--set", key)]
    kinds = [
        (3, ["--set", "layout.tensor=2"], 3, r"layout: tensor 2 x pipeline 1 x context 1 = 2 does not divide the 3 ranks of this job; .*"),
        (2, ["--set", f"data.train={spoiled}/train"], 4, bad_id),
        (3, ["--set", f"data.train={spoiled}/train", "--set", "layout.pipeline=3"], 4, bad_id),
        (2, ["--set", f"output={tmp_path}/file/run"], 5, r"cannot create .*file.*"),
        (2, diverging, 8, r"the loss or gradient was NaN or infinite in steps \d+ to \d+, so the run stops; .*"),
        (2, ["--resume", tmp_path / "none"], 4, r".*none.*"),
        (3, ["--set", "optimizer.global_batch=4"], 3, r".* is not a multiple of layout.micro_batch 1 x layout.data 3.*"),
    ]

    def fail(i):
        ranks, words, status, text = kinds[i % len(kinds)]
        path = write_run(tmp_path / f"start-{i}", corpus)
        done = subprocess.run([TRIREME, "train", path, "-n", str(ranks), *map(str, words)], capture_output=True, text=True)
        said = f"start {i}: status {done.returncode}: {done.stderr}"
        assert done.returncode == status and len(failures(done.stderr)) == 1, said
        assert re.fullmatch("trireme: " + text, failures(done.stderr)[0]), said
        assert "mpi" not in done.stderr.lower() and "another rank" not in done.stderr, said
        assert not processes_of(path), said
        shutil.rmtree(path.parent)

    with busy(LOAD):
        side_by_side(fail, range(STARTS))


# ---- signals --------------------------------------------------------------------------------------------------------


def holds_signals(pid):
    """Whether main has begun: until then a process can only die. (What makes a thread blocks all signals for that long,
    libraries before main too.)"""
    with contextlib.suppress(OSError):
        mask = int(re.search(r"SigBlk:\s*(\w+)", open(f"/proc/{pid}/status").read())[1], 16)
        blocked = {number for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGWINCH) if mask >> (number - 1) & 1}
        return blocked == {signal.SIGTERM, signal.SIGUSR1}
    return False


def moments(folder, path):
    """Points of a run's life, each a function that waits for it."""
    def begun(process):
        wait_for(lambda: holds_signals(process.pid), process)

    def processes(count):
        return lambda process: wait_for(lambda: len(processes_of(path)) >= count, process)

    def line(number):
        return lambda process: [process.stderr.readline() for _ in range(number)]

    def step(number):
        return lambda process: wait_for_step(folder, process, number)

    def saving(process):
        wait_for(lambda: any((folder / "run/checkpoints").glob(".tmp-*")), process)

    return [begun, processes(2), processes(3), processes(4), line(1), line(2), line(3), step(1), step(2), step(3), saving]


def check_interrupted(folder, process, errors, said):
    """Checks for exit status 130 and one line, whose statement about the checkpoint is true."""
    assert process.returncode == 130, said
    lines = failures(errors)
    assert len(lines) == 1 and lines[0].startswith("trireme: interrupted"), said
    assert not re.search(r"signal \d", errors) and "mpi" not in errors.lower(), said
    saved = re.search(r"interrupted after step (\d+); its checkpoint is written", lines[0])
    if saved:
        assert (folder / f"run/checkpoints/step-{int(saved[1]):08d}/COMPLETE").exists(), said
    else:
        assert re.search("before the first step|twice, so |the run is complete|without a checkpoint", lines[0]), said


@pytest.mark.parametrize("ranks", [2, 1])
def test_signals_at_any_moment(tmp_path, corpus, ranks):
    """Signals of a user, a batch system or a closed terminal are sent once or twice to the parent, or to the single process."""
    def interrupt(i):
        folder = tmp_path / f"start-{i}"
        path = write_run(folder, corpus, steps=20, checkpoint=dict(every=5))
        points = moments(folder, path)
        if ranks == 1:
            del points[1:4]  # there are no further processes
        chance = random.Random(f"{STARTS} {i}")
        number = chance.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP, *REQUESTS])
        process = start(path, "-n", ranks)
        points[i % len(points)](process)
        for _ in range(0 if process.poll() is not None else chance.choice([1, 1, 2])):
            process.send_signal(number)
        _, errors = process.communicate()
        said = f"start {i}, moment {i % len(points)}, signal {number}: status {process.returncode}: {errors}"
        if process.returncode == 0:  # it had ended before
            assert last_step(folder) == 20 and not failures(errors), said
        else:
            check_interrupted(folder, process, errors, said)
        assert not processes_of(path), said
        shutil.rmtree(folder)

    side_by_side(interrupt, range(STARTS))


def test_signal_as_the_last_step_is_saved(tmp_path, corpus):
    """A run that is complete when it ends still counts as interrupted, for a caller that would go on."""
    path = write_run(tmp_path, corpus, steps=5)
    process = start(path, "-n", 2)
    while "tokens to train on" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGSTOP)  # when it continues it has not seen the end of the ranks, whatever they did
    wait_for_step(tmp_path, process, 5)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate()
    check_interrupted(tmp_path, process, errors, errors)
    if "before the first step" not in errors:  # the parent may have been stopped before it had heard of the start
        assert (tmp_path / "run/checkpoints/step-00000005/COMPLETE").exists()


def interrupt_between_two_starts(folder, corpus, number):
    path = write_run(folder, corpus, max_restarts=5)
    process = start(path, "-n", 2)
    wait_for_step(folder, process, 2)
    others = [pid for pid in processes_of(path) if pid != process.pid]
    os.kill(process.pid, signal.SIGSTOP)
    os.kill(ranks_of(path)[1], signal.SIGKILL)
    wait_for(lambda: not ranks_of(path))
    wait_for(lambda: all(not pathlib.Path(f"/proc/{pid}/cmdline").exists() or
                         open(f"/proc/{pid}/cmdline").read() == "" for pid in others))
    process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate()
    check_interrupted(folder, process, errors, errors)
    assert "restart 1" not in errors


def test_signal_between_two_starts(tmp_path, corpus):
    """The parent finds, when it wakes, a job that has lost a rank, and a signal: no start follows."""
    side_by_side(lambda number: interrupt_between_two_starts(tmp_path / number.name, corpus, number), [signal.SIGINT, signal.SIGTERM])


def test_signal_as_it_starts_again(tmp_path, corpus):
    path = write_run(tmp_path, corpus, max_restarts=5)
    process = start(path, "-n", 2)
    wait_for_step(tmp_path, process, 2)
    os.kill(ranks_of(path)[1], signal.SIGKILL)
    errors = ""
    while "restart 1 of 5" not in errors:
        errors += process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    errors += process.communicate()[1]
    assert process.returncode == 130 and "restart 2" not in errors, errors
    assert "was killed by signal 9" in failures(errors)[0] and "interrupted" in failures(errors)[1], errors
    assert len(failures(errors)) == 2 and not processes_of(path), errors


def test_launchers_signal_before_the_first_step(tmp_path, corpus):
    """SIGUSR1 is a request, also for a rank that has not started its first step."""
    path = write_run(tmp_path, corpus)
    process = start(path, "-n", 2)
    wait_for(lambda: len(ranks_of(path)) == 2, process)
    ranks = ranks_of(path)
    wait_for(lambda: all(holds_signals(pid) for pid in ranks.values()), process)
    for pid in ranks.values():
        os.kill(pid, signal.SIGUSR1)
    _, errors = process.communicate()
    check_interrupted(tmp_path, process, errors, errors)
    assert "its checkpoint is written" in errors


def repeat(process, numbers):
    """Sends the signals in turn until the process ends. Returns its standard error."""
    sent = 0
    while process.poll() is None:
        process.send_signal(numbers[sent % len(numbers)])
        sent += 1
        time.sleep(0.01)
    assert sent > 1
    return process.communicate()[1]


@pytest.mark.parametrize("ranks", [2, 1])
def test_schedulers_signals_to_the_parent(tmp_path, corpus, ranks):
    """Signals are sent repeatedly from before the first step to the end: the first step is done and saved."""
    def interrupt(numbers):
        folder = tmp_path / "-".join(number.name for number in numbers)
        path = write_run(folder, corpus)
        process = start(path, "-n", ranks)
        wait_for(lambda: holds_signals(process.pid) and (ranks == 1 or launchers_of(path)), process)
        errors = repeat(process, numbers)
        check_interrupted(folder, process, errors, errors)
        assert "interrupted after step 1; its checkpoint is written" in errors

    side_by_side(interrupt, [*([number] for number in REQUESTS), REQUESTS])


def test_schedulers_signals_to_all_processes(tmp_path, corpus):
    """As LSF sends SIGXCPU: to the parent, the launcher, its helpers and the ranks."""
    def interrupt(number):
        folder = tmp_path / number.name
        path = write_run(folder, corpus)
        process = start(path, "-n", 2)
        wait_for_step(folder, process, 2)
        for pid in processes_of(path):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        _, errors = process.communicate()
        check_interrupted(folder, process, errors, errors)
        assert "its checkpoint is written" in errors

    side_by_side(interrupt, [signal.SIGXCPU, signal.SIGUSR2, signal.SIGALRM])


@pytest.mark.parametrize("ranks", [2, 1])
def test_terminated_after_a_request(tmp_path, corpus, ranks):
    """A request does not make the first SIGTERM a second one, which would end it at once."""
    path = write_run(tmp_path, corpus)
    process = start(path, "-n", ranks)
    wait_for_step(tmp_path, process, 2)
    process.send_signal(signal.SIGSTOP)  # so that all are there when it looks
    for number in (signal.SIGUSR2, signal.SIGTERM, signal.SIGXCPU):
        process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate()
    check_interrupted(tmp_path, process, errors, errors)
    assert "its checkpoint is written" in errors


@pytest.mark.parametrize("ranks", [2, 1])
def test_cpu_limit(tmp_path, corpus, ranks):
    """The kernel sends SIGXCPU at the soft limit, and each second from there on."""
    path = write_run(tmp_path, corpus, threads=1)
    process = start(path, "-n", ranks, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (1, 60)))
    _, errors = process.communicate()
    check_interrupted(tmp_path, process, errors, errors)
    assert "its checkpoint is written" in errors


@pytest.mark.parametrize("ranks", [2, 1])
def test_file_size_limit(tmp_path, corpus, ranks):
    """A write beyond the file size limit is reported like other failures, instead of a silent end by SIGXFSZ. (Launchers have large files, so
    only the ranks get the limit, after they have started.)"""
    path = write_run(tmp_path, corpus)
    process = start(path, "-n", ranks)
    wait_for_step(tmp_path, process, 2)
    for pid in [process.pid] if ranks == 1 else ranks_of(path).values():
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (100000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate()
    lines = failures(errors)
    assert process.returncode == 5 and len(lines) == 1, errors
    assert re.search(r"cannot write .*: File too large: beyond this process's file size limit \(ulimit -f\)", lines[0]), errors
    assert not list((tmp_path / "run/checkpoints").iterdir())


def test_file_size_limit_of_all(tmp_path, corpus):
    path = write_run(tmp_path, corpus, steps=4)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    process = start(path, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100000, limit)))
    _, errors = process.communicate()
    assert process.returncode == 5 and "file size limit (ulimit -f)" in failures(errors)[0] and "step-00000004" in errors, errors


def test_nohup(tmp_path, corpus):
    path = write_run(tmp_path, corpus, steps=8)
    process = start(path, "-n", 2, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    wait_for_step(tmp_path, process, 1)
    process.send_signal(signal.SIGHUP)
    _, errors = process.communicate()
    assert process.returncode == 0 and last_step(tmp_path) == 8, errors


def test_nobody_reads(tmp_path, corpus):
    """A closed terminal, or a reader that has gone, does not end it; nor is a closed standard error's number given away."""
    path = write_run(tmp_path, corpus, steps=6)
    reader, writer = os.pipe()
    process = subprocess.Popen([TRIREME, "train", path, "-n", "2"], stdout=writer, stderr=writer)
    os.close(writer)
    os.close(reader)
    assert process.wait() == 0 and last_step(tmp_path) == 6
    shutil.rmtree(tmp_path / "run")

    def close_all():
        for file in (0, 1, 2):
            os.close(file)

    process = subprocess.Popen([TRIREME, "train", path, "-n", "2"], preexec_fn=close_all)
    assert process.wait() == 0 and last_step(tmp_path) == 6


# ---- stopped processes ------------------------------------------------------------------------------------------------


def stop_some(folder, corpus, who):
    path = write_run(folder, corpus, hang_timeout=3)
    process = start(path, "-n", 2)
    if who.startswith("launcher"):
        wait_for(lambda: launchers_of(path), process)
        stopped = launchers_of(path)
    elif who.startswith("one"):
        wait_for(lambda: len(ranks_of(path)) == 2 and num_threads(ranks_of(path)[1]) > 1, process)  # it is on the line
        stopped = [ranks_of(path)[1]]
    else:
        wait_for_step(folder, process, 3)
        stopped = list(ranks_of(path).values()) + (launchers_of(path) if "launcher" in who else [])
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    _, errors = process.communicate()
    assert process.returncode == 9 and len(failures(errors)) == 1, (who, errors)
    if who.startswith("launcher"):
        assert re.search(r"the launcher, process \d+, has been stopped for \d+ s", errors) or "in MPI" in errors, (who, errors)
    else:
        assert re.search(r"rank \d .*process \d+,.* has given no sign of life for \d+ s, longer than hang_timeout allows", errors), (who, errors)
    if who.startswith("ranks"):
        said = int(re.search(r"the last step that was made is (\d+)\.", errors)[1])
        assert said - last_step(folder) in (0, 1), (who, errors)  # it is said first, and then written
        assert "like all others here" in errors, (who, errors)
    assert not processes_of(path), who


def stop_and_start_again(folder, corpus):
    path = write_run(folder, corpus, steps=40, hang_timeout=3, max_restarts=1)
    process = start(path, "-n", 2)
    wait_for_step(folder, process, 3)
    for pid in ranks_of(path).values():
        os.kill(pid, signal.SIGSTOP)
    _, errors = process.communicate()
    assert process.returncode == 0 and "no sign of life" in errors and "restart 1 of 1" in errors, errors
    assert last_step(folder) == 40


def stop_parent(folder, corpus):
    """No hang: the clock counts only time in which the parent itself ran. Longer than the limit in the ranks' eyes is
    nothing."""
    path = write_run(folder, corpus, hang_timeout=3)
    process = start(path, "-n", 2)
    wait_for_step(folder, process, 1)
    process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    while time.monotonic() - began < 9 and process.poll() is None:
        time.sleep(0.1)
    seen = last_step(folder)
    process.send_signal(signal.SIGCONT)
    wait_for(lambda: last_step(folder) > seen + 5, process)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate()
    check_interrupted(folder, process, errors, errors)


def test_stopped(tmp_path, corpus):
    """Everything that could say so is stopped: the parent's clock notices. Side by side, since they wait for that clock."""
    who = ["ranks", "ranks and launcher", "one, before the others watch it", "launcher, at the start"]
    cases = [lambda w=w: stop_some(tmp_path / w.replace(" ", "-"), corpus, w) for w in who]
    cases += [lambda: stop_and_start_again(tmp_path / "again", corpus), lambda: stop_parent(tmp_path / "parent", corpus)]
    side_by_side(lambda case: case(), cases, len(cases))


# ---- deaths ---------------------------------------------------------------------------------------------------------


def crash(folder, corpus, number):
    path = write_run(folder, corpus, layout=dict(pipeline=2))
    process = start(path, "-n", 2)
    wait_for_step(folder, process, 2)
    victim = ranks_of(path)[1]
    os.kill(victim, number)
    if number == signal.SIGTERM:  # the first one is a request
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, number)
    _, errors = process.communicate()
    if number == signal.SIGTERM and process.returncode == 130:
        return
    assert process.returncode == 9 and len(failures(errors)) == 1, (number, errors)
    name = signal.strsignal(number)
    said = rf"rank 1 \(pipeline 1\) on \S+ was killed by signal {int(number)} \({name}\).*, at step \d+; the job of 2 ranks is ended"
    assert re.search(said, errors), (number, errors)


def test_crash(tmp_path, corpus):
    numbers = [signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGKILL, signal.SIGTERM]
    side_by_side(lambda number: crash(tmp_path / number.name, corpus, number), numbers)


# ---- what killed jobs leave -----------------------------------------------------------------------------------------


def sessions_in(folder):
    """Environment in which Open MPI keeps its sessions there."""
    return {**{name: value for name, value in os.environ.items() if not name.endswith("tmpdir_base")}, "TMPDIR": str(folder)}


def test_leftovers(tmp_path, corpus):
    """Planted segments and session folders: only those of this host and user that no process holds go, at the next start."""
    if os.readlink("/proc/self/ns/pid") != "pid:[4026531836]":
        pytest.skip("SKIPPED: nothing is removed where processes of the host may be hidden")
    host, user, memory = os.uname().nodename, os.geteuid(), pathlib.Path("/dev/shm")
    job = f"{0xfe000000 + os.getpid():08x}"  # no other's that runs this test now
    gone = subprocess.Popen(["true"])
    gone.wait()
    sessions = tmp_path / f"ompi.{host}.{user}"
    for name in (f"pid.{gone.pid}", f"pid.{os.getpid()}", "pid.", f"pid.{gone.pid}x", "other"):
        (sessions / name / "0/deep").mkdir(parents=True)
        (sessions / name / "0/deep/file").write_text("x")
    (tmp_path / f"ompi.else-{host}.{user}/pid.{gone.pid}").mkdir(parents=True)
    (sessions / f"pid.{2**22 + 1}").symlink_to(tmp_path / f"ompi.else-{host}.{user}")
    names = dict(dead=f"vader_segment.{host}.{user}.{job}.0", held=f"vader_segment.{host}.{user}.{job}.1",
                 mapped=f"vader_segment.{host}.{user}.{job}.2", newer=f"sm_segment.{host}.{user}.{job}.3",
                 host=f"vader_segment.else-{host}.{user}.{job}.4", user=f"vader_segment.{host}.{user + 1}.{job}.5",
                 longer=f"vader_segment.{host}.{user}.{job}.6.x", other=f"trireme-test-{os.getpid()}",
                 link=f"vader_segment.{host}.{user}.{job}.7")
    try:
        for kind, name in names.items():
            if kind == "link":
                (memory / name).symlink_to(memory / names["other"])
            else:
                (memory / name).write_bytes(bytes(4096))
        held = open(memory / names["held"], "rb")
        with open(memory / names["mapped"], "r+b") as file:
            mapped = mmap.mmap(file.fileno(), 4096)
        path = write_run(tmp_path, corpus, steps=5)
        trireme("train", path, "-n", "2", env=sessions_in(tmp_path))
        left = {kind for kind, name in names.items() if os.path.lexists(memory / name)}
        assert left == set(names) - {"dead", "newer"}, left
        assert {p.name for p in sessions.iterdir() if p.name.startswith("pid.")} == {
            f"pid.{os.getpid()}", "pid.", f"pid.{gone.pid}x", f"pid.{2**22 + 1}"}
        assert (tmp_path / f"ompi.else-{host}.{user}/pid.{gone.pid}").exists() and (sessions / "other/0/deep/file").exists()
        held.close()
        mapped.close()
    finally:
        for name in names.values():
            (memory / name).unlink(missing_ok=True)


def test_leftovers_without_domain(tmp_path):
    """Open MPI 4 leaves a host's domain out of its names; and a process may have any name, here one that looks dead."""
    if os.readlink("/proc/self/ns/pid") != "pid:[4026531836]":
        pytest.skip("SKIPPED: nothing is removed where processes of the host may be hidden")
    host, job = f"trireme-test-{os.getpid()}", "fe570001"
    named = ["unshare", "--uts", "sh", "-c", f'hostname {host}.left.out && exec "$@"', "sh"]
    if subprocess.run([*named, "true"], capture_output=True).returncode != 0:
        pytest.skip("SKIPPED: giving a host another name takes root")
    gone = subprocess.Popen(["true"])
    gone.wait()
    strange = tmp_path / "x) Z y"
    shutil.copy(shutil.which("sleep"), strange)
    alive = subprocess.Popen([strange, "100000"])
    wait_for(lambda: "x) Z y" in open(f"/proc/{alive.pid}/stat").read(), alive)
    long, short = (tmp_path / f"ompi.{name}.{os.geteuid()}" for name in (f"{host}.left.out", host))
    try:
        segment = pathlib.Path(f"/dev/shm/vader_segment.{host}.{os.geteuid()}.{job}.0")
        segment.write_bytes(bytes(4096))
        for folder in (long, short):
            for pid in (gone.pid, alive.pid):
                (folder / f"pid.{pid}/0").mkdir(parents=True)
        # Leftovers go before the ranks find that there is no data.
        done = subprocess.run([*named, TRIREME, "train", write_run(tmp_path, tmp_path), "-n", "2"], capture_output=True,
                              text=True, env=sessions_in(tmp_path))
        assert done.returncode != 0
        assert not segment.exists()
        assert [p.name for folder in (long, short) for p in folder.iterdir()] == 2 * [f"pid.{alive.pid}"]
    finally:
        segment.unlink(missing_ok=True)
        alive.kill()
        alive.wait()


def test_killed_job_leaves_nothing_to_the_next(tmp_path, corpus):
    """Every process is killed at once; the next start cleans up after them."""
    if os.readlink("/proc/self/ns/pid") != "pid:[4026531836]":
        pytest.skip("SKIPPED: nothing is removed where processes of the host may be hidden")
    path = write_run(tmp_path, corpus)
    environment = sessions_in(tmp_path)
    process = start(path, "-n", 2, env=environment)
    wait_for_step(tmp_path, process, 2)
    mine = set(processes_of(path))
    for pid in sorted(mine, key=lambda pid: pid == process.pid):
        os.kill(pid, signal.SIGSTOP)  # so that none can clean up
    held = {os.readlink(f"/proc/{pid}/map_files/{name}").removesuffix(" (deleted)")
            for pid in mine for name in os.listdir(f"/proc/{pid}/map_files")} if os.geteuid() == 0 else set()
    segments = [pathlib.Path(file) for file in held if file.startswith("/dev/shm/")]
    for pid in mine:
        os.kill(pid, signal.SIGKILL)
    process.communicate()
    wait_for(lambda: not processes_of(path))
    left = segments + list(tmp_path.glob("ompi.*/pid.*"))
    trireme("train", path, "-n", 2, "--set", "optimizer.steps=8", env=environment)
    assert not [file for file in left if file.exists()]


def test_fault_of_all_ranks_is_printed_once(tmp_path, corpus):
    """Under a launcher of the user's own, each rank finds the wrong key, the missing file or the unknown option."""
    path = write_run(tmp_path, corpus)
    environment = {**os.environ, "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    cases = ((path, "--set", "optimizer.stepz=8"), 3, "optimizer.stepz"), (("none.yaml",), 4, "none.yaml"), ((path, "--stepz"), 2, "--stepz")

    def check(case):
        words, status, text = case
        done = subprocess.run([os.environ.get("TRIREME_MPIEXEC", "mpiexec"), "-n", "3", TRIREME, "train", *map(str, words)], capture_output=True, text=True, env=environment, timeout=60)
        said = [line for line in done.stderr.splitlines() if line.startswith("trireme: ")]
        assert done.returncode == status and len(said) == 1 and text in said[0], (done.returncode, done.stderr)

    side_by_side(check, cases)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *os.sys.argv[1:]]))
