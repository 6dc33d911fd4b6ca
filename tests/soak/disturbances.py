"""The disturbances. Each is a function of the scene: it starts the job (or finds it stopped), disturbs it, and returns the
outcome in a few words. It raises Violation if the program does not react in one of the ways that are promised."""
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess

import reinforcement
from jobs import TRIREME, Violation, checkpoints, digest, processes_of, send, snapshots

# The text that the error message must have, for each kind of disturbance.
SAID = {
    "killed": r"was killed by signal \d+|mpiexec|launcher|no rank printed an error message",
    "stuck": r"nothing has moved|does not answer|no sign of life",
    "interrupted": r"interrupted",
    "full": r"No space left on device|Disk quota exceeded|File too large",
    "second": r"is in use by process",
    "corpus": r"corpus|data\.train|data\.prompts",
    "left": r"has not answered for \d+ of \d+ completions|has ended three times in a row",
    "none": r"none of the \d+ checkpoints in \S+ is usable; restore one, or move them away",
}


def refused(job, status, statuses, kind):
    """The job failed as it should: a status that is promised, and words for it, once."""
    said = job.said()
    if status not in statuses:
        raise Violation(f"status {status} instead of {statuses} after it was {kind}; it said:\n{said}")
    if re.search(SAID[kind], said) is None:
        raise Violation(f"status {status}, and no word of why ({kind}: {SAID[kind]}); it said:\n{said}")
    if said.count("trireme: ") != 1 + said.count("restart "):
        raise Violation(f"a failure is said once; this was said:\n{said}")
    return "refused, said why"


# ---- signals


def end_by(scene, choose, number, kind, statuses):
    """Sends a signal to some of a job's processes at a random moment."""
    job = scene.start()
    moment = job.wait_for_moment(scene.chance)
    pids = choose(job)
    if job.is_over() or not pids:
        return after_its_end(scene, job)
    for pid in pids:
        send(pid, number)
    scene.note(f"{moment}")
    status = job.wait()
    if status == 0:
        return "went through"  # it was over before, or it was started again
    if kind is None:
        return f"ended, status {'by the signal' if status < 0 else 'not 0'}"
    return refused(job, status, statuses, kind)


def after_its_end(scene, job):
    status = job.wait()
    if status != 0:
        raise Violation(f"status {status} although nothing disturbed it; it said:\n{job.said()}")
    return "was through"


def kill_a_rank(scene):
    def choose(job):
        ranks = job.rank_pids()
        return [scene.chance.choice(ranks)] if ranks else []
    return end_by(scene, choose, signal.SIGKILL, "killed", (9,))


def kill_all_ranks(scene):
    return end_by(scene, lambda job: job.rank_pids(), signal.SIGKILL, "killed", (9,))


def kill_everything(scene):
    return end_by(scene, lambda job: [job.process.pid, *([job.launcher_pid()] if job.launcher_pid() else []), *job.rank_pids()], signal.SIGKILL, None, ())


def kill_the_launcher(scene):
    return end_by(scene, lambda job: [pid for pid in [job.launcher_pid()] if pid], signal.SIGKILL, "killed", (9,))


def kill_the_parent(scene):
    return end_by(scene, lambda job: [job.process.pid], signal.SIGKILL, None, ())


def interrupt(scene):
    number = scene.chance.choice([signal.SIGTERM, signal.SIGINT])
    job = scene.start()
    scene.note(job.wait_for_moment(scene.chance))
    if job.is_over():
        return after_its_end(scene, job)
    alone = set(processes_of(scene.path)) <= {job.process.pid}
    send(job.process.pid, number)
    status = job.wait()
    if status == 0:
        return "went through"
    if status == -number and (scene.ranks == 0 or alone):
        return "ended, status by the signal"  # before the program had begun to listen
    return refused(job, status, (130,), "interrupted")


def stop(scene, everyone):
    """Stopped for good: the job must give up by itself; nothing can be said by a process that is stopped."""
    job = scene.start("--set", "hang_timeout=4", "--set", "max_restarts=0")
    more = scene.chance.randint(1, 8)
    job.wait_for(lambda: job.lines() >= job.begun_lines + more)
    ranks = job.rank_pids()
    if job.is_over() or len(ranks) < scene.ranks:
        return after_its_end(scene, job)
    for pid in ranks if everyone else [scene.chance.choice(ranks)]:
        send(pid, signal.SIGSTOP)
    status = job.wait(90)
    return "went through" if status == 0 else refused(job, status, (9,), "stuck")


def stop_a_rank(scene):
    return stop(scene, False)


def stop_all_ranks(scene):
    return stop(scene, True)


def stop_and_go_on(scene):
    """Everything sleeps for a while, as a laptop does: no reason to give up."""
    job = scene.start("--set", "hang_timeout=30")
    scene.note(job.wait_for_moment(scene.chance))
    pids = [job.process.pid, *([job.launcher_pid()] if scene.ranks > 0 and job.launcher_pid() else []), *(job.rank_pids() if scene.ranks > 0 else [])]
    if job.is_over():
        return after_its_end(scene, job)
    for pid in pids:
        send(pid, signal.SIGSTOP)
    scene.pause(0.5, 2)
    for pid in reversed(pids):
        send(pid, signal.SIGCONT)
    status = job.wait()
    if status != 0:
        raise Violation(f"status {status} after all slept and woke again; it said:\n{job.said()}")
    return "went through"


# ---- a reward's program


def reward_pids(scene):
    return sorted(pid for pid, words in processes_of(scene.path).items() if any(word.endswith("reward.py") for word in words[:3]))


def end_rewards(scene, number):
    """A signal to processes of the reward, once or several times. The completions that they had are judged again; one that
    fails twice ends the run, because rollout.max_failed is 0."""
    job = scene.start()
    for _ in range(scene.chance.choice([1, 1, 2, 4])):
        more = scene.chance.randint(0, 4)
        begun = job.lines()
        job.wait_for(lambda: job.lines() >= begun + more and reward_pids(scene))
        scene.pause(0, 0.05)
        pids = reward_pids(scene)
        for pid in pids if scene.chance.random() < 0.3 else pids[:1]:
            send(pid, number)
    status = job.wait()
    return "went through" if status == 0 else refused(job, status, (5,), "left")


def kill_rewards(scene):
    return end_rewards(scene, scene.chance.choice([signal.SIGKILL, signal.SIGTERM]))


def stop_rewards(scene):
    return end_rewards(scene, signal.SIGSTOP)


def misbehaving_rewards(scene):
    """The program ends, sleeps or writes nonsense at random lines, from its first one on; perhaps all is killed meanwhile."""
    mood = scene.folder / "moody"
    mood.write_text(str(scene.chance.choice([0.005, 0.02, 0.1])))
    scene.note(mood.read_text())
    try:
        job = scene.start()
        if scene.chance.random() < 0.3:
            scene.note(job.wait_for_moment(scene.chance))
            for pid in [job.process.pid, *job.rank_pids()]:
                send(pid, signal.SIGKILL)
            job.wait()
            return "killed under it"
        status = job.wait()
    finally:
        mood.unlink()
    scene.evaluations_may_fail = True
    return "went through" if status == 0 else refused(job, status, (5,), "left")


# ---- disks


def full_disk(scene):
    """The disk is filled up but for a part of a checkpoint, and emptied again after the failure."""
    facts = os.statvfs(scene.disk)
    free = facts.f_bavail * facts.f_bsize
    left = scene.chance.randrange(0, 400000)
    filler = scene.disk / "filler"
    with open(filler, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, free - left))
    scene.note(f"{left} bytes left")
    try:
        job = scene.start()
        status = job.wait()
    finally:
        filler.unlink()
    return "went through" if status == 0 else refused(job, status, (5,), "full")


def small_files(scene):
    """No file may grow beyond a limit, as under a quota. Not with ranks: MPI needs files of its own."""
    limit = scene.chance.randrange(300, 60000)

    def set_limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    scene.note(f"{limit} bytes")
    job = scene.start(limit=set_limit)
    status = job.wait()
    return "went through" if status == 0 else refused(job, status, (5,), "full")


# ---- damage at rest


def break_off(scene, condition):
    """A job that is killed once this holds, so that there is something to damage."""
    job = scene.start()
    if job.wait_for(condition):
        for pid in [job.process.pid, *job.rank_pids()]:
            send(pid, signal.SIGKILL)
    job.wait()


def some_file_of_a_checkpoint(scene):
    found = checkpoints(scene.output)
    if not found:
        break_off(scene, lambda: checkpoints(scene.output))
        found = checkpoints(scene.output)
    if not found:
        return None
    step = scene.chance.choice([max(found), scene.chance.choice(sorted(found))])
    files = sorted(path for path in found[step].iterdir() if path.is_file() and path.stat().st_size > 0)
    return (step, scene.chance.choice(files)) if files else None


def damage_a_file(scene, how):
    chosen = some_file_of_a_checkpoint(scene)
    if chosen is None:
        return "no checkpoint to damage"
    step, path = chosen
    scene.note(f"{path.parent.name}/{path.name}")
    how(path)
    scene.mark_damaged(step, path.parent)
    outcome = readers_of(scene, step, path.parent)
    return outcome if set(checkpoints(scene.output)) - set(scene.damaged) else f"{outcome}; {without_a_good_one(scene)}"


def without_a_good_one(scene):
    """Without a good checkpoint the run must refuse to start, until the user does as its message says. It may continue if
    the nodes have a good copy in memory."""
    job = scene.start()
    status = job.wait()
    if status == 0:
        return "none is good: went on"
    outcome = refused(job, status, (4,), "none")
    (scene.output / "checkpoints").rename(scene.output / "moved-away")
    shutil.rmtree(scene.output / "moved-away")
    scene.forget()
    return f"none is good: {outcome}"


def flip_a_bit(scene):
    def how(path):
        data = bytearray(path.read_bytes())
        data[scene.chance.randrange(len(data))] ^= 1 << scene.chance.randrange(8)
        path.write_bytes(data)
    return damage_a_file(scene, how)


def cut_a_file(scene):
    return damage_a_file(scene, lambda path: os.truncate(path, scene.chance.randrange(path.stat().st_size)))


def delete_a_file(scene):
    return damage_a_file(scene, lambda path: path.unlink())


def flip_a_reference(scene):
    """A bit of a tensor of the reference, which only a run with objective.beta reads."""
    if some_file_of_a_checkpoint(scene) is None:
        return "no checkpoint to damage"
    folder = checkpoints(scene.output)[max(checkpoints(scene.output))]
    places = [place for path in sorted(folder.glob("*.safetensors")) for place in references_of(path)]
    if not places:
        return "the checkpoint was made before the first update"
    path, begin, end = scene.chance.choice(places)
    data = bytearray(path.read_bytes())
    data[scene.chance.randrange(begin, end)] ^= 1 << scene.chance.randrange(8)
    path.write_bytes(data)
    scene.note(f"{folder.name}/{path.name}")
    scene.mark_damaged(max(checkpoints(scene.output)), folder)
    outcome = readers_of(scene, max(checkpoints(scene.output)), folder)
    return outcome if set(checkpoints(scene.output)) - set(scene.damaged) else f"{outcome}; {without_a_good_one(scene)}"


def references_of(path):
    """(file, begin, end) of the bytes of each tensor of the reference."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    head = json.loads(data[8:8 + length])
    return [(path, 8 + length + begin, 8 + length + end) for name, (begin, end) in ((name, at["data_offsets"]) for name, at in head.items() if name != "__metadata__")
            if name.endswith(".reference") and end > begin]


def readers_of(scene, step, folder):
    """A command that reads a damaged checkpoint by name refuses it, or does not need what is damaged."""
    out = scene.folder / "exported"
    shutil.rmtree(out, ignore_errors=True)
    done = subprocess.run([TRIREME, "export", str(folder), str(out)], capture_output=True, text=True, errors="replace", timeout=120)
    if done.returncode == 0:
        model = {name: at for name, at in digest(out).items()}
        good = {name: at for name, at in scene.undisturbed().digests[step].items() if name.startswith("model")}
        if scene.run["checkpoint"]["shard_bytes"] > 10**9 and model != good and same_weights_needed(scene):
            raise Violation(f"export of {folder} wrote other weights than were saved, and said nothing: {done.stderr}")
        return "damage elsewhere: exported whole"
    if str(folder) not in done.stderr or done.stderr.count("trireme: ") != 1:
        raise Violation(f"export of the damaged {folder}: status {done.returncode}, and not one message that names it: {done.stderr}")
    return "readers refuse it"


def same_weights_needed(scene):
    """An export in the precision of the checkpoint is the same file, unless an adapter is merged into its base."""
    return scene.run["precision"] == "fp32" and "adapter" not in scene.run.get("grpo", {}) and scene.run["optimizer"].get("name") != "schedule_free"


def damage_metrics(scene):
    path = scene.output / "metrics.jsonl"
    if not path.exists() or path.stat().st_size == 0:
        least = scene.chance.randint(3, 12)
        break_off(scene, lambda: path.exists() and path.read_bytes().count(b"\n") >= least)
    lines = path.read_text(errors="replace").split("\n")[:-1]
    at = scene.chance.randrange(len(lines))
    kind = scene.chance.choice(["a blank line", "a bad line", "bytes of zero", "a cut end"])
    scene.note(f"{kind} at line {at + 1} of {len(lines)}")
    if kind == "a blank line":
        lines.insert(at, "")
    elif kind == "a bad line":
        lines.insert(at, '{"step": ')
    elif kind == "bytes of zero":
        lines.insert(at, "\0" * 64)
    text = "\n".join(lines) + "\n"
    if kind == "a cut end":
        text = text[: -1 - scene.chance.randrange(len(lines[-1]))]
        scene.lose_line(lines[-1])
    path.write_text(text)
    return "damaged"


# ---- clocks


def clock_library():
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"):
        path = os.path.join(folder, "faketime", "libfaketime.so.1")
        if os.path.exists(path):
            return path
    return None


def clock_jumps(scene):
    """A job on a clock that is wrong, or becomes wrong in its middle; the job after it has the true one. Processes share a
    lock of libfaketime's, which one that is killed may hold for good: only a job of one process is killed under it."""
    away = scene.chance.choice(["-400d", "-3600", "-2", "+2", "+3600", "+400d"])
    time = scene.folder / "clock"
    time.write_text("+0\n" if scene.chance.random() < 0.5 else away + "\n")
    scene.note(f"by {away}")
    job = scene.start(environment=dict(LD_PRELOAD=clock_library(), FAKETIME_TIMESTAMP_FILE=str(time), FAKETIME_NO_CACHE="1", NO_FAKE_STAT="1",
                                       FAKETIME_DONT_FAKE_MONOTONIC="1", DONT_FAKE_MONOTONIC="1"))
    more = scene.chance.randint(1, 8)
    job.wait_for(lambda: job.lines() >= job.begun_lines + more)
    time.write_text(away + "\n")
    killed = scene.ranks == 0 and scene.chance.random() < 0.5
    if killed:
        send(job.process.pid, signal.SIGKILL)
    status = job.wait()
    for name in (f"sem.faketime_sem_{job.process.pid}", f"faketime_shm_{job.process.pid}"):
        pathlib.Path("/dev/shm", name).unlink(missing_ok=True)
    if status != 0 and not killed:
        raise Violation(f"status {status} on a clock that jumps by {away}; it said:\n{job.said()}")
    return "went through" if status == 0 else "killed under it"


# ---- others in the same place


def two_at_once(scene):
    """The same command twice: one works, the other is refused, or comes when the first is through."""
    first = scene.start()
    if scene.chance.random() < 0.3:
        first.wait_for_moment(scene.chance)
    second = scene.start()
    statuses = [first.wait(), second.wait()]
    if statuses == [0, 0]:
        return "one after the other"
    if 0 not in statuses:
        raise Violation(f"statuses {statuses}: of two at once none could work; they said:\n{first.said()}\n{second.said()}")
    loser = second if statuses[0] == 0 else first
    return refused(loser, max(statuses), (10,), "second")


def remove_the_output(scene):
    """Killed, its output removed, perhaps with another corpus in the old one's place: a new run, from its first step."""
    job = scene.start()
    more = scene.chance.randint(2, 12)
    job.wait_for(lambda: job.lines() >= job.begun_lines + more)
    for pid in [job.process.pid, *job.rank_pids()]:
        send(pid, signal.SIGKILL)
    job.wait()
    remembered = "with" if snapshots(scene.output) else "without"
    shutil.rmtree(scene.output)
    scene.forget()
    if scene.chance.random() < 0.5:
        scene.swap_corpus()
        return f"another corpus, {remembered} snapshots"
    return f"removed, {remembered} snapshots"


def other_corpus(scene):
    """Another corpus at the same path under a run that has begun: refused by name."""
    if not checkpoints(scene.output):
        break_off(scene, lambda: checkpoints(scene.output))
    if not checkpoints(scene.output):
        return "no checkpoint"
    scene.swap_corpus()
    try:
        job = scene.start()
        status = job.wait()
    finally:
        scene.swap_corpus()
    if status == 0 and "steps already" in job.said():
        return "was through"
    if status == 0:
        raise Violation(f"another corpus under a run that has begun was accepted; it said:\n{job.said()}")
    return refused(job, status, (3, 4), "corpus")


# ---- the draw


def anywhere(scene):
    return True


def on_ranks(scene):
    return scene.ranks > 0


def on_several_ranks(scene):
    return scene.ranks > 1


def with_a_reference(scene):
    mine = scene.run.get("grpo")
    return mine is not None and mine["objective"]["beta"] > 0 and "adapter" not in mine


def with_a_program(scene):
    return reinforcement.has_program(scene.run)


# Each with its weight, and the scenes it is for.
DISTURBANCES = [
    (kill_a_rank, 4, on_ranks), (kill_all_ranks, 3, on_ranks), (kill_everything, 4, anywhere), (kill_the_launcher, 3, on_ranks),
    (kill_the_parent, 3, anywhere), (interrupt, 4, anywhere), (stop_a_rank, 1, on_several_ranks), (stop_all_ranks, 1, on_several_ranks),
    (stop_and_go_on, 1, anywhere), (full_disk, 4, lambda scene: scene.disk is not None), (small_files, 3, lambda scene: scene.ranks == 0),
    (flip_a_bit, 3, anywhere), (cut_a_file, 2, anywhere), (delete_a_file, 1, anywhere), (damage_metrics, 3, anywhere),
    (clock_jumps, 2, lambda scene: clock_library() is not None), (two_at_once, 3, anywhere), (remove_the_output, 2, anywhere),
    (other_corpus, 1, anywhere), (kill_rewards, 4, with_a_program), (stop_rewards, 2, with_a_program), (misbehaving_rewards, 4, with_a_program),
    (flip_a_reference, 4, with_a_reference),
]


def draw(scene, only=None):
    rows = [row for row in DISTURBANCES if only in (None, row[0].__name__) and row[2](scene)]
    return scene.chance.choices(rows, [row[1] for row in rows])[0][0] if rows else None
