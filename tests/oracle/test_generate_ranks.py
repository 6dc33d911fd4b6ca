"""`generate` and `eval` on several ranks (-n, or a launcher of the user's own) print the same bytes as one process. The output
of a job that is interrupted, or loses a rank, consists of whole lines."""
import contextlib
import fcntl
import json
import os
import pty
import random
import re
import shutil
import signal
import subprocess
import termios
import time

import pytest
from parity import TRIREME, trireme, yaml_of
from test_launch import ranks_of, wait_for

LAUNCHER = os.environ.get("TRIREME_MPIEXEC", "mpiexec")
pytestmark = pytest.mark.skipif(shutil.which("mpiexec") is None or shutil.which(LAUNCHER) is None, reason="SKIPPED: there is no mpiexec")
POSITIONS = 128
MODEL = dict(family="gpt2", num_layers=2, hidden_size=32, num_heads=2, vocab_size=257, max_sequence=POSITIONS)
WORDS = "the oars of the trireme are pulled in time, and the sea is wide and dark;".split()
JSON = ("--samples", 4, "--stop", "e", "--logprobs", 2, "--json", "--batch", 3, "--tokens", 20)
LONG = ("--samples", 3, "--json", "--batch", 3, "--tokens", 800, "--ignore-end")  # the lines fill a pipe; each is short enough to be written at once
TEXTS = 120  # of LONG


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two runs of three checkpoints, corpora, and files of prompts and questions."""
    folder = tmp_path_factory.mktemp("made")
    draw = random.Random(3)
    (folder / "text.txt").write_text(" ".join(draw.choice(WORDS) for _ in range(4000)))
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "corpus", folder / "text.txt")
    for seed, width in ((1, 32), (2, 16)):
        run = dict(model=dict(MODEL, hidden_size=width), data=dict(train=str(folder / "corpus/train"), sequence=POSITIONS), layout=dict(micro_batch=4), seed=seed,
                   optimizer=dict(global_batch=4, steps=60, lr=1e-2), checkpoint=dict(every=20, keep=0), output=str(folder / f"run{seed}"))
        (folder / f"run{seed}.yaml").write_text(yaml_of(run))
        trireme("train", folder / f"run{seed}.yaml")
    trireme("export", folder / "run1", folder / "model")
    sentences = [" ".join(draw.choice(WORDS) for _ in range(draw.randint(1, 9)))[:45] for _ in range(40)]
    (folder / "prompts.txt").write_text("\n".join(sentences) + "\n")
    pairs = [dict(prompt=text, chosen="the sea" * (1 + i % 3), rejected="oars " * (1 + i % 4)) for i, text in enumerate(sentences)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    trireme("prepare", "--preferences", "--tokenizer", folder / "model", "--chat-template", "none", "--out", folder / "pairs", folder / "pairs.jsonl")
    choices = [dict(question=text, choices=draw.sample(WORDS, 3), answer=i % 3) for i, text in enumerate(sentences)]
    (folder / "choices.jsonl").write_text("".join(json.dumps(row) + "\n" for row in choices))
    answers = [dict(question=text, answer=draw.choice(WORDS)) for text in sentences[:12]]
    (folder / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in answers))
    return folder


def run(*words, status=0, launcher=(), **options):
    done = subprocess.run([*launcher, TRIREME, *map(str, words)], capture_output=True, timeout=60, stdin=None if "input" in options else subprocess.DEVNULL, **options)
    assert done.returncode == status, (words, done.stderr)
    return done


def is_open_mpi():
    return "Open" in subprocess.run([LAUNCHER, "--version"], capture_output=True, text=True).stdout


def by_hand(ranks):
    return [LAUNCHER, *(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"] if is_open_mpi() else []), "-n", str(ranks)]


def check_same(*words, ranks=(2,), **options):
    alone = run(*words, **options)
    assert alone.stdout
    for count in ranks:
        assert run(*words, "-n", count, **options).stdout == alone.stdout, (words, count)
    return alone


# ---- the same bytes -----------------------------------------------------------------------------------------------------


def test_many_texts(made):
    """As JSON and as text; as many ranks, whatever starts them."""
    words = ("generate", made / "model", "--prompts", made / "prompts.txt")
    alone = check_same(*words, *JSON, ranks=(1, 2, 3))
    assert len(alone.stdout.splitlines()) == 160 and b'"finish":"stop"' in alone.stdout and b'"finish":"length"' in alone.stdout
    assert run(*words, *JSON, launcher=by_hand(2)).stdout == alone.stdout
    check_same(*words, "--tokens", 9)


def numbers(done, name):
    return [line["logprobs"][name] for line in map(json.loads, done.stdout.splitlines())]


def test_tensor_ranks(made):
    """Two ranks with half of the heads and of the vocabulary each: the same bytes for any number of such pairs, batch, cache and guesses; and
    by rounding those of one rank. A token that one rank samples from copies of the logits, too (top-k and a penalty)."""
    words = ("generate", made / "model", "--prompts", made / "prompts.txt", *JSON)
    for sampling in ((), ("--top-k", 9, "--repetition-penalty", 1.1), ("--temperature", 0)):
        alone, pair = run(*words, *sampling), run(*words, *sampling, "--tensor", 2)
        assert pair.stdout == run(*words, *sampling, "--tensor", 2, "-n", 4, "--batch", 1).stdout
        assert [json.loads(line)["ids"] for line in alone.stdout.splitlines()] == [json.loads(line)["ids"] for line in pair.stdout.splitlines()]
        for name in ("model", "sampled", "entropy", "prompt"):
            for one, two in zip(numbers(alone, name), numbers(pair, name)):
                assert all(a is b or abs(a - b) < 1e-4 for a, b in zip(one, two)), name
    words = ("generate", made / "model", "--prompts", made / "prompts.txt", "--tokens", 60, "--json", "--tensor", 2)
    pair = run(*words)
    for more in (("--cache", 3 * 64 * 2 * 32 * 4), ("--prompt-lookup", 3), ("--draft", made / "run2"), ("--batch", 20, "-n", 4)):
        assert run(*words, *more).stdout == pair.stdout, more
    assert run(*words, launcher=by_hand(4)).stdout == pair.stdout
    for words in (("--choices", made / "choices.jsonl", "--json"), ("--answers", made / "answers.jsonl", "--samples", 2)):
        assert run("eval", made / "model", *words, "--tensor", 2).stdout == run("eval", made / "model", *words, "--tensor", 2, "-n", 4).stdout


def test_tensor_ranks_of_a_damaged_checkpoint(made, tmp_path):
    """Checksums are compared, although each rank reads a slice."""
    folder = shutil.copytree(made / "run1/checkpoints/step-00000060", tmp_path / "copy")
    damaged = bytearray((folder / "model.safetensors").read_bytes())
    damaged[-9] ^= 64
    (folder / "model.safetensors").write_bytes(damaged)
    said = run("generate", folder, "--prompt", "the", "--tensor", 2, status=4).stderr.decode()
    assert "is damaged: its checksum is" in said and said.count("trireme: ") == 1
def test_scores_of_prompts(made):
    """The text is ended by its stop string, on another rank."""
    check_same("generate", made / "model", "--prompts", made / "prompts.txt", "--stop", "e", "--logprobs", 2, "--json", "--batch", 3, "--tokens", 20)


def test_a_prompt_that_is_cached_whole(made, tmp_path):
    """64 tokens, a page, with which an earlier prompt begins."""
    page = "the oars of the trireme are pulled in time, and the sea is wide "
    (tmp_path / "two.txt").write_text(f"{page} and\n{page}\n")
    check_same("generate", made / "model", "--prompts", tmp_path / "two.txt", "--samples", 2, "--tokens", 4, "--batch", 1, "--json")


@pytest.mark.parametrize("words", [("--prompt", ":"), ("--prompt", "the", "--stop", ":"), ("--prompt", "-n"), ("--prompt", "-next"), ("--prompt", "--ranks")])
def test_values_like_options_of_the_launcher(made, words):
    check_same("generate", made / "model", "--tokens", 9, *words)


def test_prompts_through_a_pipe(made):
    prompts = (made / "prompts.txt").read_bytes()
    given = check_same("generate", made / "model", "--prompts", "-", *JSON, input=prompts)
    assert given.stdout == run("generate", made / "model", "--prompts", made / "prompts.txt", *JSON).stdout
    check_same("generate", made / "model", "--tokens", 30, input=prompts[:50])  # one prompt, which is printed as it is written


def test_kinds_of_output(made, tmp_path):
    """A file, which is not written over from its beginning, a pipe, and a pipe that nothing reads any more."""
    words = [TRIREME, "generate", *map(str, (made / "model", "--prompts", made / "prompts.txt", *JSON, "-n", 2))]
    alone = run(*words[1:-2]).stdout
    with open(tmp_path / "out", "wb") as out:
        out.write(b"before\n")
        out.flush()
        subprocess.run(words, stdout=out, check=True, stderr=subprocess.DEVNULL)
    assert (tmp_path / "out").read_bytes() == b"before\n" + alone
    done = subprocess.run(["bash", "-c", 'set -o pipefail; "$@" | head -1', "-", *words], capture_output=True, timeout=60)
    assert done.stdout == alone.splitlines(keepends=True)[0]
    assert done.returncode != 0 and done.stderr.count(b"cannot write to standard output") == 1, done.stderr


def test_guesses(made):
    words = ("generate", made / "model", "--prompts", made / "prompts.txt", *JSON)
    alone = run(*words).stdout
    for more in (("--prompt-lookup", 3), ("--draft", made / "run2")):
        assert run(*words, *more, "-n", 2).stdout == alone


def test_corpora(made):
    """A model's loss, that of an ensemble, and preferences."""
    check_same("eval", made / "run1", made / "corpus/train", "--json", ranks=(2, 3))
    check_same("eval", made / "run1", made / "run2", made / "corpus/validation", "--sequence", 32, "--batch", 3)
    check_same("eval", made / "model", made / "pairs/train", "--reference", made / "run2", "--json")
    words = ("eval", made / "run1", made / "corpus/validation", "--json")
    assert run(*words, launcher=by_hand(2)).stdout == run(*words).stdout


def test_questions(made, tmp_path):
    check_same("eval", made / "run1", "--choices", made / "choices.jsonl", "--json", ranks=(2, 3))
    check_same("eval", made / "run1", "--answers", made / "answers.jsonl", "--samples", 2, "--tokens", 12, "--until", " ", "--json")
    words = ("eval", made / "run1", "--choices", made / "choices.jsonl", "--all-checkpoints", "--svg")
    alone, shared = run(*words, tmp_path / "a.svg"), run(*words, tmp_path / "b.svg", "-n", 2)
    assert alone.stdout.count(b"\n") > 3 and alone.stdout == shared.stdout
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_few_texts(made):
    """Fewer than ranks: two of them have nothing to do."""
    words = ("generate", made / "model", "--prompt", "the oars", "--tokens", 12)
    done = run(*words, "-n", 3)
    assert done.stdout == run(*words).stdout and b"1 prompt for 3 replicas of the model: some have nothing to do" in done.stderr


def test_dry_run(made):
    """The plan is that of one rank, and no rank waits for the others' texts."""
    words = ("generate", made / "model", "--prompts", made / "prompts.txt", "--dry-run")
    for more, launcher in (((), ()), (("-n", 2), ()), ((), by_hand(2))):
        assert run(*words, *more, launcher=launcher).stdout.startswith(b"40 texts, 8 side by side, of 128 positions at most\n")


def at_a_terminal(*words, given):
    """Runs the program in the foreground of a terminal that stops the output of other process groups (stty tostop). Returns its status and output."""
    ours, theirs = pty.openpty()
    settings = termios.tcgetattr(theirs)
    settings[3] = settings[3] & ~termios.ECHO | termios.TOSTOP
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    with subprocess.Popen([TRIREME, *map(str, words)], stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, start_new_session=True,
                          preexec_fn=lambda: fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)) as job:
        os.close(theirs)
        os.write(ours, given)
        said = job.communicate(timeout=60)[1]
        printed = b""
        with contextlib.suppress(OSError):  # if nothing is printed
            printed = os.read(ours, 65536).replace(b"\r\n", b"\n")
    os.close(ours)
    return job.returncode, printed, said


def test_a_terminal(made):
    """Ranks are not in its foreground: they can write to it, and fail where they would read from it."""
    words = ("generate", made / "model", "--tokens", 9)
    assert at_a_terminal(*words, "--prompt", "the", "-n", 2, given=b"")[:2] == (0, run(*words, "--prompt", "the").stdout)
    status, _, said = at_a_terminal(*words, "--prompts", "-", "-n", 2, given=b"the\n\x04")
    assert status == 4 and b"standard input" in said


# ---- errors -------------------------------------------------------------------------------------------------------------


def test_refusals(made, tmp_path):
    """Each is printed once, by one of the ranks or before they start."""
    (tmp_path / "bad.jsonl").write_text('{"prompt": "the"}\n{"prompt": 3}\n')
    (tmp_path / "long.txt").write_text("the\n" + "oars " * 20 + "\n")
    prompts = ("--prompts", made / "prompts.txt")
    for model, words, status, message in (
        ("model", ("--chat",), 2, "a conversation has one text at a time"),
        ("model", ("--prompt", "the", "--tensor", 4), 2, "-n 2 is not a multiple of --tensor 4"),
        ("none", prompts, 4, "none"),
        ("model", ("--prompts", tmp_path / "bad.jsonl"), 4, "bad.jsonl line 2: no prompt"),
        ("model", ("--prompts", tmp_path / "none.txt"), 4, "none.txt"),
        ("model", ("--prompts", tmp_path / "long.txt", "--cache", 2 * 64 * 2 * 32 * 4), 2, "takes 2 pages of 64 positions, and the cache has 1"),
    ):
        said = run("generate", made / model, *words, "-n", 2, status=status).stderr.decode()
        assert len(re.findall(f"^trireme: .*{re.escape(message)}", said, re.MULTILINE)) == 1 and said.count("trireme: ") == 1, said
    said = run("generate", made / "model", "--prompt", "the", "--tensor", 3, status=3).stderr.decode()
    assert said == "trireme: --tensor 3 does not divide the model's 2 heads; 2 would\n"
    said = run("eval", made / "none", made / "corpus/train", "-n", 2, status=4).stderr.decode()
    assert said.count("trireme: ") == 1 and str(made / "none") in said


@pytest.mark.parametrize("command", ["generate", "eval"])
def test_other_folders(made, tmp_path, command):
    """A relative path in other working directories: nodes with disks of their own."""
    for rank, folder in enumerate((made / "model", made / "run1/checkpoints/step-00000020")):
        (tmp_path / f"rank{rank}").mkdir()
        (tmp_path / f"rank{rank}/here").symlink_to(folder)
    script = f'cd "{tmp_path}/rank${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}" && exec "$@"'
    words = ("here", "--prompt", "the") if command == "generate" else ("here", str(made / "corpus/train"))
    done = subprocess.run([*by_hand(2), "sh", "-c", script, "-", TRIREME, command, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and not done.stdout.strip()
    assert "rank 1 has another model than rank 0 under the name here" in done.stderr


# ---- a job that ends in its midst ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def undisturbed(made):
    lines = run("generate", made / "model", "--prompts", made / "prompts.txt", *LONG, "-n", 3).stdout.splitlines(keepends=True)
    assert len(lines) == TEXTS
    return lines


def start(made, path, ranks):
    """`path`: a link to the model, by which the job's processes are found."""
    path.symlink_to(made / "model")
    words = map(str, (path, "--prompts", made / "prompts.txt", *LONG, "-n", ranks))
    return subprocess.Popen([TRIREME, "generate", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, bufsize=0)


def test_interrupted(made, tmp_path, undisturbed):
    """Texts in progress end there, and each line is whole."""
    with start(made, tmp_path / "model", 2) as job:
        first = [job.stdout.readline() for _ in range(5)]
        job.send_signal(signal.SIGINT)
        rest, said = job.communicate(timeout=60)
    lines = [json.loads(line) for line in [*first, *rest.splitlines()]]
    complete = sum(line["finish"] == "length" for line in lines)
    assert rest.endswith(b"\n") and first == undisturbed[:5] and complete < TEXTS
    assert all(line["finish"] in ("length", "cancelled") for line in lines)
    assert re.search(f"interrupted: {complete} of {TEXTS} texts are complete", said.decode()) and job.returncode == 130, said


@pytest.mark.parametrize("seed", range(6))
def test_a_rank_is_killed(made, tmp_path, undisturbed, seed):
    """The texts that were there remain, and the message has their number."""
    draw = random.Random(seed)
    ranks, before = draw.choice((2, 3)), draw.randrange(TEXTS // 4)
    killed = draw.randrange(ranks)
    with start(made, tmp_path / "model", ranks) as job:
        wait_for(lambda: len(ranks_of(tmp_path / "model")) == ranks, job)
        first = [job.stdout.readline() for _ in range(before)]
        os.kill(ranks_of(tmp_path / "model")[killed], signal.SIGKILL)
        rest, said = job.communicate(timeout=60)
    lines = first + rest.splitlines(keepends=True)
    # All texts may be there, if the killed rank had sent all of its own.
    assert job.returncode != 0 and lines == undisturbed[: len(lines)], said
    name = f"rank {killed}" if is_open_mpi() else r"(?:rank \d|a rank)"  # MPICH may report another of the ranks, which it kills next
    texts = f"; (\\d+) of {TEXTS} texts are in the output"  # not if the job was killed before the first rank was ready
    found = re.search(f"{name} on .* was killed by signal .*the job of {ranks} ranks is ended(?:{texts})?$", said.decode(), re.MULTILINE)
    assert found is not None and len(lines) - 1 <= int(found[1] or 0) <= len(lines), (len(lines), said)
    wait_for(lambda: not ranks_of(tmp_path / "model"))


def test_a_rank_is_stopped_for_a_while(made, tmp_path, undisturbed):
    with start(made, tmp_path / "model", 2) as job:
        first = [job.stdout.readline() for _ in range(5)]
        stopped = ranks_of(tmp_path / "model")[1]
        os.kill(stopped, signal.SIGSTOP)
        time.sleep(1)
        os.kill(stopped, signal.SIGCONT)
        rest, said = job.communicate(timeout=60)
    assert first + rest.splitlines(keepends=True) == undisturbed and job.returncode == 0, said
