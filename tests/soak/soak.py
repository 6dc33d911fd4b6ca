#!/usr/bin/env python3
"""Disturbs random runs in every way, for any time: soak.py [--minutes N] [--seed S] [--rounds N] [--only KIND] [--grpo].

A round draws a small model, a layout, a device and settings of checkpoints; runs it undisturbed; then runs the same with one
to five disturbances (disturbances.py) and lets it finish. It must end with the bits of the undisturbed run (weights, state of
the optimizer, every line of metrics). A start may also fail clearly: with a status other than 0, one message, and the newest
good checkpoint still there. At any moment, each folder with the name of a checkpoint is good, and no process is left over.

Round k of seed S is round 0 of seed S + k, so `--seed S+k --rounds 1` repeats it. A violation is printed with the command that
repeats it, its folder is kept, and the exit status is 1. The moments of the disturbances are drawn but not exact, so a
violation that depends on one may need several tries to occur again."""
import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

import disturbances
import drawing
import reinforcement
from jobs import TRIREME, Job, Undisturbed, Violation, checkpoints, course, digest, samples, snapshots

DISK_BYTES = 64 << 20  # plus the size of all checkpoints if the run keeps all


def without_evaluation(line):
    """A line of course() as it is if the evaluation after the step fails."""
    return tuple(item for item in line if not (isinstance(item, tuple) and item[0].startswith("validation/")))


class Scene:
    """One run and what has befallen it so far."""

    def __init__(self, folder, chance, corpora, disk_allowed, grpo=False):
        self.folder, self.chance, self.corpora = folder, chance, corpora
        self.run = drawing.draw_run(chance, grpo)
        ranks = drawing.ranks_of(self.run["layout"])
        self.ranks = 0 if ranks == 1 and chance.random() < 0.5 else ranks  # 0: without -n
        self.environment = {"TRIREME_RANKS_PER_NODE": "1"} if self.ranks > 1 and chance.random() < 0.3 else {}
        self.disk = mount_disk(folder / "disk") if disk_allowed and chance.random() < 0.3 else None
        self.output = (self.disk or folder) / "run"
        (folder / "corpus").mkdir()
        self.corpus = 0
        self.link_corpus()
        self.path = drawing.write_run(folder / "run.yaml", self.run, folder / "corpus/data", self.output)
        self.undisturbed_of, self.damaged, self.lost_steps, self.notes = {}, {}, set(), []
        self.good = set()

    def link_corpus(self):
        link = self.folder / "corpus/data"
        link.unlink(missing_ok=True)
        link.symlink_to(self.corpora[self.corpus])

    def swap_corpus(self):
        self.corpus = 1 - self.corpus
        self.link_corpus()

    def undisturbed(self):
        """The bits of this run on the corpus that is there now."""
        if self.corpus not in self.undisturbed_of:
            folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-soak-undisturbed-", dir=memory_folder()))
            path = drawing.write_run(folder / "run.yaml", drawing.undisturbed_run(self.run), self.corpora[self.corpus], folder / "run")
            self.undisturbed_of[self.corpus] = Undisturbed(folder, path, self.ranks, self.updates())
        return self.undisturbed_of[self.corpus]

    def updates(self):
        return self.run["grpo"]["updates"] if self.run["objective"] == "grpo" else 0

    def start(self, *more, environment=None, limit=None):
        return Job(self.path, self.ranks, *more, environment={**self.environment, **(environment or {})}, limit=limit)

    def note(self, text):
        self.notes.append(text)

    def pause(self, low, high):
        time.sleep(self.chance.uniform(low, high))

    def lose_line(self, line):
        """A line of metrics that we have destroyed: its step may be missing at the end."""
        words = line.split('"step": ')
        if len(words) > 1:
            self.lost_steps.add(int(words[1].split(",")[0].split("}")[0]))

    evaluations_may_fail = False  # because a reward misbehaved; the evaluation of a step is not repeated

    def forget(self):
        self.damaged, self.lost_steps, self.good = {}, set(), set()

    @staticmethod
    def identity(folder):
        facts = folder.stat()
        return facts.st_ino, facts.st_mtime_ns

    def mark_damaged(self, step, folder):
        """Until a new save of the same step takes its place."""
        self.damaged[step] = self.identity(folder)

    # ---- checks

    def check_checkpoints(self):
        """Each folder with the name of a checkpoint is good, unless we damaged it, and the newest good one still exists."""
        expected, there = self.undisturbed().digests, checkpoints(self.output)
        self.damaged = {step: at for step, at in self.damaged.items() if step in there and self.identity(there[step]) == at}
        found = {step: digest(at) for step, at in there.items()}
        for step, sums in found.items():
            if step not in self.damaged and sums != expected[step]:
                raise Violation(f"the checkpoint of step {step} has not the bits of the undisturbed run")
        before = self.good - set(self.damaged)
        self.good = set(found) - set(self.damaged)
        if not self.undisturbed().rollouts.startswith(reinforcement.rollouts(self.output)):
            raise Violation("rollouts.jsonl is not the beginning of the undisturbed run's")
        if before and not any(step >= max(before) for step in self.good):
            raise Violation(f"the newest good checkpoint was that of step {max(before)}, and now there are those of {sorted(self.good)}")

    def check_end(self, job, status):
        expected = self.undisturbed()
        if status != 0:
            raise Violation(f"at rest and undisturbed again it ends with status {status}; it said:\n{job.said()}")
        self.check_checkpoints()
        if self.run["checkpoint"]["at_end"] and expected.steps not in self.good:
            raise Violation(f"there is no good checkpoint of the last step; there are {sorted(self.good)}")
        lines, _ = course(self.output, self.updates() > 0)
        missing = {at[0] for at in expected.course} - {at[0] for at in lines}
        if self.evaluations_may_fail:
            found = dict((at[0], at) for at in lines)
            expected.course = [found[at[0]] if found.get(at[0]) == without_evaluation(at) else at for at in expected.course]
        if lines != [at for at in expected.course if at[0] not in missing] or missing - self.lost_steps:
            raise Violation(f"metrics.jsonl differs from the undisturbed run's: missing are the steps {sorted(missing - self.lost_steps)}; "
                            f"{len(lines)} lines for {expected.steps} steps; {difference(lines, expected.course)}")
        self.check_samples()
        self.check_rollouts()
        left = [path.name for path in (self.output / "checkpoints").glob(".*")] if (self.output / "checkpoints").exists() else []
        if left:
            raise Violation(f"unfinished saves are left: {left}")
        summary = self.output / "summary.json"
        if not summary.exists() or json.loads(summary.read_text())["steps"] != expected.steps or not (self.output / "loss.svg").exists():
            raise Violation(f"after a good end there is no summary of {expected.steps} steps, or no curve")
        if (self.output / "LOCK").exists():
            raise Violation("the output is locked after a good end")
        if snapshots(self.output):
            raise Violation(f"snapshots are left in memory after a good end: {snapshots(self.output)}")

    def check_samples(self):
        """Each text is that of the undisturbed run, and those of the newest checkpoint are there."""
        expected, found = self.undisturbed().samples, samples(self.output)
        for key, line in found.items():
            if expected.get(key) != line:
                raise Violation(f"samples.jsonl has another text of {key} than the undisturbed run: {line}, not {expected.get(key)}")
        if self.run["samples"] and self.good:
            missing = [n for n in range(len(self.run["samples"]["prompts"])) if (max(self.good), n) not in found]
            if missing:
                raise Violation(f"samples.jsonl lacks the prompts {missing} of step {max(self.good)}")

    def check_rollouts(self):
        """All completions are those of the undisturbed run, and each prompt of an epoch is in one batch."""
        text = reinforcement.rollouts(self.output)
        if text != self.undisturbed().rollouts:
            raise Violation(f"rollouts.jsonl has {len(text)} bytes of the {len(self.undisturbed().rollouts)} of the undisturbed run")
        wrong = reinforcement.wrong_order(text, self.updates() > 0 and "filter" in self.run["grpo"]["rollout"])
        if wrong:
            raise Violation(f"rollouts.jsonl: {wrong}")

    def release(self, keep):
        for path in snapshots(self.output):
            shutil.rmtree(path, ignore_errors=True)
        if self.disk is not None:
            if keep and self.output.exists():
                shutil.copytree(self.output, self.folder / "run", dirs_exist_ok=True)
            subprocess.run(["umount", "-l", str(self.disk)], check=False)
        if not keep:
            shutil.rmtree(self.folder)


def difference(mine, theirs):
    by_step, last = {at[0]: at for at in theirs}, 0
    for at in mine:
        if at[0] <= last:
            return f"step {at[0]} stands behind step {last}"
        last = at[0]
        if by_step.get(at[0]) != at:
            return f"the first that differs: {at} for {by_step.get(at[0])}"
    return "no line of them differs"


def memory_folder():
    """A folder in memory, where files are written fast, if there is room: the checkpoints of all steps take a few hundred MB."""
    memory = pathlib.Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > 2 << 30 else None


def mount_disk(at):
    at.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(at)], capture_output=True, check=False)
    return at if done.returncode == 0 else None


def give_room(scene):
    """Enlarges the disk of a run that keeps all its checkpoints, so that it does not become full without a disturbance."""
    if scene.disk is not None and scene.run["checkpoint"]["keep"] == 0:
        size = DISK_BYTES + scene.undisturbed().disk_bytes
        subprocess.run(["mount", "-o", f"remount,size={size}", str(scene.disk)], check=True)


def play(scene, only, counts):
    """The disturbances, the checks between them, and the end."""
    scene.undisturbed()
    give_room(scene)
    for _ in range(scene.chance.randint(1, 5)):
        kind = disturbances.draw(scene, only)
        if kind is None:  # `only` is for other scenes
            return False
        name = kind.__name__.replace("_", " ")
        scene.note(name)
        scene.doing = name
        outcome = kind(scene)
        scene.note(f"({outcome})")
        counts[name, outcome] += 1
        scene.check_checkpoints()
        if scene.undisturbed().steps in scene.good:  # the run is complete; the next disturbance gets a new run
            finish(scene)
            shutil.rmtree(scene.output)
            scene.forget()
    finish(scene)
    return True


def finish(scene):
    scene.doing = "the end"
    job = scene.start()
    scene.check_end(job, job.wait())


def make_corpora(folder):
    """Makes two corpora with the same tokenizer and of about the same size."""
    out = []
    for number, word in enumerate(("rowers", "stoker")):
        text = folder / f"{number}.txt"
        text.write_text("".join(f"Line {i}: the {word} pull {i * 7919 % 1000} times.\n" for i in range(1500)))
        out.append(folder / f"corpus-{number}")
        subprocess.run([TRIREME, "prepare", "--tokenizer", "bytes", "--out", out[-1], text], check=True, capture_output=True)
        pairs = folder / f"{number}.jsonl"
        pairs.write_text("".join(json.dumps(dict(prompt=f"{i}:", chosen=f" {word[:2 + i % 5]}", rejected=f" {i * 7 % 90}")) + "\n" for i in range(400)))
        subprocess.run([TRIREME, "prepare", "--preferences", "--tokenizer", "bytes", "--validation", "0.1", "--out", out[-1] / "pairs", pairs], check=True,
                       capture_output=True)
        reinforcement.write_prompts(out[-1] / "prompts.jsonl", word)
        reinforcement.write_prompts(out[-1] / "held-out.jsonl", word[::-1])
    reinforcement.make_models(folder / "models", TRIREME)
    return out


def round_of(seed, base, corpora, options, counts):
    """Whether all was as promised."""
    folder = base / f"seed-{seed}"
    folder.mkdir()
    begin = time.monotonic()
    scene = Scene(folder, random.Random(seed), corpora, os.geteuid() == 0, options.grpo)
    print(f"soak: seed {seed}: {drawing.words_of(scene.run)}", flush=True)
    try:
        if not play(scene, options.only, counts):
            scene.release(keep=False)
            return True
    except Violation as violation:
        counts[getattr(scene, "doing", "the undisturbed run"), "VIOLATION"] += 1
        print(f"soak: seed {seed}: {' '.join(scene.notes)}\nsoak: VIOLATION: {violation}\n"
              f"soak: repeat it with: make soak MINUTES=1 SEED={seed}   its folder: {folder}", flush=True)
        scene.release(keep=True)
        return False
    print(f"soak: seed {seed}: {' '.join(scene.notes)}; ended with the bits of the undisturbed run ({time.monotonic() - begin:.1f} s)", flush=True)
    counts["a round", "ended with the bits of the undisturbed run"] += 1
    scene.release(keep=False)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=1 << 30)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", help="one kind of disturbance, such as kill_a_rank")
    parser.add_argument("--grpo", action="store_true", help="only runs that learn from rewards")
    options = parser.parse_args()
    names = [row[0].__name__ for row in disturbances.DISTURBANCES]
    if options.only not in (None, *names):
        parser.error(f"--only {options.only}: there are {', '.join(names)}")
    seed = random.SystemRandom().randrange(1 << 31) if options.seed is None else options.seed
    base = pathlib.Path(tempfile.mkdtemp(prefix="trireme-soak-"))
    print(f"soak: {options.minutes:g} minutes from seed {seed}, in {base}", flush=True)
    if os.geteuid() != 0:
        print("soak: SKIPPED: full disks: only root may mount a small one")
    if disturbances.clock_library() is None:
        print("soak: SKIPPED: clocks that jump: there is no libfaketime (scripts/install-deps.sh --soak)")
    corpora, counts, good, bad = make_corpora(base), collections.Counter(), 0, 0
    end = time.monotonic() + 60 * options.minutes
    while good + bad < options.rounds and (time.monotonic() < end or good + bad == 0):
        if round_of(seed + good + bad, base, corpora, options, counts):
            good += 1
        else:
            bad += 1
    print(f"\nsoak: {good + bad} rounds, {bad} with a violation; disturbances and what became of them:")
    for (name, outcome), count in sorted(counts.items()):
        print(f"soak: {count:6d}  {name}: {outcome}")
    if bad == 0:
        shutil.rmtree(base)
    return 1 if bad > 0 else 0


if __name__ == "__main__":
    sys.exit(main())
