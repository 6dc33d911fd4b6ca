"""Mistakes of users, through the program itself: each gives one error message with the fault, its place and a fix, and the exit status of
its kind, and leaves no partial output. (Unit tests and fuzzers test damaged files byte by byte.)"""
import json
import os
import re
import resource
import shutil
import struct
import subprocess

import pytest
from parity import TRIREME, trireme, yaml_of

MODEL = dict(family="gpt2", num_layers=1, hidden_size=16, num_heads=2, vocab_size=257, max_sequence=32)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A corpus and a finished run."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "text.txt").write_text("pull the oars in time\n" * 500)
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "corpus", folder / "text.txt")
    write_run(folder, folder)
    trireme("train", folder / "run.yaml")
    return folder


def write_run(folder, made, **changes):
    run = dict(model=MODEL, data=dict(train=str(made / "corpus/train"), sequence=16), layout=dict(micro_batch=2),
               optimizer=dict(global_batch=2, steps=4, lr=1e-3), checkpoint=dict(every=2), output=str(folder / "run"))
    run.update(changes)
    (folder / "run.yaml").write_text(yaml_of(run))
    return folder / "run.yaml"


def check(done, *texts):
    lines = [line for line in done.stderr.splitlines() if line.startswith("trireme: ")]
    assert len(lines) == 1, done.stderr
    for text in texts:
        assert text in done.stderr, done.stderr


def test_command_line():
    check(trireme("trian", status=2), "`trian` is not a command; did you mean `train`?")
    check(trireme("help", "runn", status=2), "help: `runn` is neither a command nor a kind of file nor a key; did you mean `run`?")
    check(trireme("help", "zzzzzzzz", status=2), "`zzzzzzzz` is neither a command nor a kind of file nor a key; `trireme --help` lists them")
    check(trireme("train", status=2), "which run file?")
    check(trireme("train", "a.yaml", "b.yaml", status=2), "one run file at a time, not `b.yaml` too")
    check(trireme("train", "a.yaml", "--restart", status=2), "--restart is not an option")
    check(trireme("train", "a.yaml", "--set", status=2), "--set needs a value")
    check(trireme("train", "a.yaml", "-n", "0", status=2), "-n must be from 1")
    check(trireme("generate", "x", "--tokens", "many", status=2), "--tokens takes a whole number, not `many`")
    check(trireme("generate", "x", "--top-p", "7", status=2), "--top-p must be from")
    check(trireme("eval", "x", status=2), "name a checkpoint and a corpus")
    check(trireme("inspect", "gpt2-124", status=3), "gpt2-124m")


def test_a_link_in_the_output(tmp_path, made):
    """A link is refused in a folder in which other users may write, since they may have made it; in a folder of the user alone it is followed."""
    (tmp_path / "mine").write_text("kept\n")
    (tmp_path / "run").mkdir()
    (tmp_path / "run/metrics.jsonl").symlink_to(tmp_path / "mine")
    path = write_run(tmp_path, made)
    for mode in (0o777, 0o1777):
        (tmp_path / "run").chmod(mode)
        check(trireme("train", path, status=5), "run/metrics.jsonl is a link that another user may have made")
        assert (tmp_path / "mine").read_text() == "kept\n"
    (tmp_path / "run").chmod(0o755)
    (tmp_path / "mine").write_text("")
    trireme("train", path)
    assert len((tmp_path / "mine").read_text().splitlines()) == 4 and (tmp_path / "run/metrics.jsonl").is_symlink()


def test_run_file(tmp_path, made):
    check(trireme("train", tmp_path / "none.yaml", status=4), "none.yaml", "No such file")
    path = tmp_path / "unknown.yaml"
    path.write_text("model:\n  family: gpt2\n  layers: 4\n")
    check(trireme("train", path, status=3), "`layers` is not a key of `model:` at line 3 of", "did you mean `num_layers`?")
    path = write_run(tmp_path, made)
    check(trireme("train", path, "--set", "optimizer.lr=fast", status=3), "--set optimizer.lr=fast", "must be a number, not")
    check(trireme("train", path, "--set", "optimizer.ster=1", status=3), "`ster`", "did you mean")
    check(trireme("train", path, "--set", "model.num_heads=3", status=3), "num_heads", "16")
    check(trireme("train", path, "--set", "data.sequence=64", status=3), "64", "32")
    check(trireme("train", path, "--set", "optimizer.global_batch=3", status=3), "global_batch", "3", "micro_batch")
    check(trireme("train", path, "--set", "device=gpus", status=3), "`gpus` is not a device; there are auto, cpu")
    check(trireme("train", path, "--set", "precision=fp64", status=3), "fp64", "reference")
    check(trireme("train", path, "--set", "layout.tensor=2", status=3), "tensor 2", "= 2 does not divide the 1 ranks")
    check(trireme("train", path, "--set", "layout.context=2", status=3), "context 2 = 2 does not divide the 1 ranks")
    check(trireme("train", path, "--dry-run", "-n", 2, "--rank", 9, "--set", "layout.tensor=2", status=2), "--rank 9", "0 to 1")
    inside = {**os.environ, "PMIX_RANK": "0"}
    check(trireme("train", path, "-n", 2, status=2, env=inside), "leave -n out")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("ranks,changes,said", [
    (4, "context=4 data.sequence=3", ["layout.context 4 leaves ranks without a token of a sequence of 3; reduce it, or use longer sequences"]),
    (4, "context=4 context_exchange=heads", [
        "layout.context 4 cannot exchange heads: a rank of layout.tensor 1 has 2 heads and 2 key/value heads",
        "set layout.context_exchange to gather or ring, with layout.context_inner=2 or less"]),
    (4, "tensor=2 context=2 context_exchange=heads", ["layout.context 2 cannot exchange heads: a rank of layout.tensor 2 has 1 heads", "context_inner=1"]),
    (4, "context=4 context_inner=4", ["layout.context_inner 4 cannot exchange heads", "; 2 would"]),
    (4, "context=4 context_inner=3", ["layout.context_inner 3 does not divide layout.context 4; 2 or 4 would"]),
    (4, "context=4 context_inner=8 context_exchange=ring", ["layout.context_inner 8 does not divide layout.context 4; 4 would"]),
    (1, "context_inner=2", ["layout.context_inner 2 does not divide layout.context 1; 1 would"]),
    (4, "context=4 context_exchange=heads context_inner=2", [
        "layout.context_inner is 2 and layout.context 4, but with layout.context_exchange=heads all context ranks exchange heads; leave context_inner out"]),
    (3, "context=2", ["context 2 = 2 does not divide the 3 ranks", "start 2 ranks"]),
    (2, "context=3 data=1", ["context 3 x data 1 = 3 ranks, and this job has 2"]),
    (6, "context=2 data=2 optimizer.global_batch=4", ["context 2 x data 2 = 4 ranks, and this job has 6", "layout.data=3"]),
    (2, "context=2 context_exchange=rings", ["`context_exchange` under `layout:`", "one of gather, heads, ring, not `rings`; did you mean `ring`?"]),
    (2, "context=0", ["`context` under `layout:` must be between 1 and"]),
    (4, "context=4 micro_batch=4 optimizer.global_batch=4 model.max_sequence=1000000000 data.sequence=1000000000", [
        "layout.micro_batch 4 x data.sequence 1000000000 are more than the 2147483647 tokens that a micro-batch may have", "layout.micro_batch to 2 or less"]),
    (2, "context=2 context_inner=-1", ["`context_inner` under `layout:`"]),
])
def test_shares_of_sequences(tmp_path, made, ranks, changes, said):
    sets = [word for change in changes.split() for word in ("--set", change if "." in change else f"layout.{change}")]
    check(trireme("train", write_run(tmp_path, made), "--dry-run", "-n", ranks, *sets, status=3), *said)


def test_corpus(tmp_path, made):
    path = write_run(tmp_path, made)
    check(trireme("train", path, "--set", "data.train=nowhere/train", status=4), "nowhere/train")
    check(trireme("train", path, "--set", "model.vocab_size=200", status=3), "257 tokens", "200", "set model.vocab_size")
    (tmp_path / "empty.txt").write_text("")
    check(trireme("prepare", "--tokenizer", "bytes", "--out", tmp_path / "e", tmp_path / "empty.txt", status=4), "hold no text")
    (tmp_path / "short.txt").write_text("hello")
    trireme("prepare", "--tokenizer", "bytes", "--validation", "0", "--out", tmp_path / "short", tmp_path / "short.txt")
    check(trireme("train", path, "--set", f"data.train={tmp_path}/short/train", status=3), "6", "17")
    # The index says more than there is.
    corpus = tmp_path / "cut"
    corpus.mkdir()
    for name in ("train.bin", "train.idx"):
        (corpus / name).write_bytes((made / "corpus" / name).read_bytes())
    raw = (corpus / "train.bin").read_bytes()
    (corpus / "train.bin").write_bytes(raw[: len(raw) // 2])
    check(trireme("train", path, "--set", f"data.train={corpus}/train", status=4), "train.idx")
    # Ids beyond the model's vocabulary.
    spoiled = bytearray(raw)
    spoiled[200:202] = struct.pack("<H", 60000)
    (corpus / "train.bin").write_bytes(spoiled)
    check(trireme("train", path, "--set", f"data.train={corpus}/train", "--set", "optimizer.steps=1000", status=4), "60000")


def test_out_of_memory_is_said_before_the_run(tmp_path, made):
    path = write_run(tmp_path, made)
    done = trireme("train", path, "--set", "model=frontier-22b", status=6)
    check(done, "this run needs", "bytes", "but the machine has", "reduce")

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

    done = trireme("train", path, "--set", "layout.micro_batch=2000", "--set", "optimizer.global_batch=2000", "--set",
                   "model.hidden_size=512", "--set", "model.num_layers=12", status=6, preexec_fn=limit)
    check(done, "this run needs", "layout.micro_batch")


def test_checkpoint(tmp_path, made):
    check(trireme("generate", tmp_path / "none", "--prompt", "a", status=4), "none")
    (tmp_path / "hollow").mkdir()
    check(trireme("generate", tmp_path / "hollow", "--prompt", "a", status=4), "neither a model (config.json) nor a checkpoint")
    newest = sorted((made / "run/checkpoints").glob("step-*"))[-1]

    def copy_of(name):
        folder = tmp_path / name
        folder.mkdir()
        for file in newest.iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
        for file in ("state.json", "COMPLETE"):
            (folder / file).unlink()  # a plain Hugging Face folder
        return folder

    cut = copy_of("cut")
    (cut / "model.safetensors").write_bytes((cut / "model.safetensors").read_bytes()[:-10])
    check(trireme("generate", cut, "--prompt", "a", status=4), "model.safetensors")
    other = copy_of("other")
    config = json.loads((other / "config.json").read_text())
    config["n_embd"] = 32
    (other / "config.json").write_text(json.dumps(config))
    check(trireme("generate", other, "--prompt", "a", status=4), "wte.weight", "[257, 16]", "[257, 32]")
    spoiled = copy_of("spoiled")
    (spoiled / "tokenizer.json").write_text('{"model": {"type": "BPE", "vocab": {')
    check(trireme("generate", spoiled, "--prompt", "a", status=4), "tokenizer.json")
    done = trireme("generate", newest, "--prompt", "a" * 40, "--tokens", "5", "--ignore-end", errors="replace")
    assert "longer than the 32 positions" in done.stderr and done.stdout.startswith("a" * 40)
    # Resuming with another model.
    path = write_run(tmp_path, made, output=str(tmp_path / "again"))
    check(trireme("train", path, "--resume", newest, "--set", "model.hidden_size=32", status=3),
          "model.hidden_size is 16 there and 32 in this run", "do not fit")


def test_windows(tmp_path, made):
    """Windows are refused for models without them, and if the keys contradict each other; so is a checkpoint with a different window."""
    path = write_run(tmp_path, made)
    check(trireme("train", path, "--set", "model.window=8", status=3), "`window` is for llama", "leave it out")
    llama = dict(family="llama", num_layers=4, hidden_size=16, num_heads=2, ffn_size=24, vocab_size=257, max_sequence=32, window=8)
    path = write_run(tmp_path, made, model={**llama, "window_layers": "2-"})
    check(trireme("train", path, "--set", "model.window_layers=2-5", status=3), "names layer 5", "0 to 3 (num_layers)")
    check(trireme("train", path, "--set", "model.window=0", status=3), "`window_layers` is `2-`", "`window` is not set")
    trireme("train", path)
    check(trireme("train", path, "--resume", tmp_path / "run", "--set", f"output={tmp_path / 'again'}", "--set", "model.window=9",
                  "--set", "model.window_layers=1 of 2", status=3),
          "model.window is 8 there and 9 in this run", "model.window_layers is \"2-3\" there and \"1 of 2\" in this run")
    assert "5 of 6" in trireme("train", "--keys").stdout


def test_disk_full_in_a_save_keeps_the_old_checkpoint(tmp_path, made):
    if os.geteuid() != 0:
        pytest.skip("SKIPPED: needs to be root to mount a small file system")
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", folder]).returncode != 0:
        pytest.skip("SKIPPED: mounting is not allowed here")
    try:
        # One checkpoint of this model fits and two do not.
        path = write_run(tmp_path, made, output=str(folder / "run"), model={**MODEL, "hidden_size": 48})
        done = trireme("train", path, status=5)
        check(done, "No space left on device")
        (good,) = (folder / "run/checkpoints").glob("step-*")
        assert good.name == "step-00000002"
        trireme("inspect", good, "--verify")
    finally:
        subprocess.run(["umount", folder])


def test_json_stays_json(made):
    done = trireme("eval", made / "run", made / "corpus/validation", "--json")
    assert json.loads(done.stdout)["tokens"] > 0
    done = trireme("inspect", "gpt2-124m", "--json")
    assert json.loads(done.stdout)["parameters"] == 124439808
    for words in (["eval", made / "run", made / "corpus/validation"], ["inspect", "gpt2-1.5b"], ["plan", "--help"], ["generate", made / "run", "--tokens", "2"]):
        done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", TRIREME, *words], capture_output=True, text=True)
        assert done.returncode == 5 and "cannot write to standard output: it is closed" in done.stderr, (words, done.stderr)
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", TRIREME, "export", made / "run", made / "closed"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr  # export prints nothing there
    done = subprocess.run([TRIREME, "eval", made / "run", made / "corpus/validation"], stdout=open("/dev/full", "w"),
                          stderr=subprocess.PIPE, text=True)
    assert done.returncode == 5 and "standard output" in done.stderr


def test_compare_of_odd_metrics(tmp_path, made):
    """Impossible numbers in a metrics file are left out of the table, the JSON, the picture and the page."""
    shutil.copytree(made / "run", tmp_path / "run")
    path = tmp_path / "run/metrics.jsonl"
    steps = [json.loads(line) for line in path.read_text().splitlines()]
    for number in (1e308, -1e308, 1e31):
        path.write_text("".join(json.dumps({**step, **dict.fromkeys(("step_s", "mfu", "loss", "validation_loss", "tokens_per_s"), number)}) + "\n" for step in steps))
        words = ("compare", tmp_path / "run", made / "run")
        text = trireme(*words, "--svg", tmp_path / "a.svg", "--html", tmp_path / "a.html").stdout
        for said in (text, (tmp_path / "a.svg").read_text(), (tmp_path / "a.html").read_text()):
            assert not re.search(r"(?<![a-z])(inf|nan)(?![a-z])", said), said
        found = json.loads(trireme(*words, "--json").stdout)
        assert len(found) == 2 and found[0]["mfu"] is None and found[0]["loss"] is None and found[0]["seconds"] == 0


@pytest.mark.parametrize("kept,rest", [("tokenizer.json", ""), ("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt"), ("merges.txt", "vocab.json")])
def test_a_pipe_in_place_of_a_tokenizer(tmp_path, made, kept, rest):
    """It is not waited for in a folder that others may have filled."""
    folder = tmp_path / "folder"
    folder.mkdir()
    os.mkfifo(folder / kept)
    if rest:
        (folder / rest).write_text("{}" if rest.endswith("json") else "#version\n")
    name = f"gpt2:{folder}" if kept == "encoder.json" else folder
    done = subprocess.run([TRIREME, "prepare", "--tokenizer", name, "--out", tmp_path / "out", made / "text.txt"], capture_output=True, text=True, timeout=60)
    check(done, f"{kept} is a pipe, not a plain file")
    assert done.returncode == 4


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_a_lock_that_is_no_file(tmp_path, made, kind):
    """A pipe is not waited for, and the target of a link is not touched."""
    path, lock, other = write_run(tmp_path, made, output=str(tmp_path / "run")), tmp_path / "run/LOCK", tmp_path / "other"
    (tmp_path / "run").mkdir()
    other.write_text("kept")
    {"pipe": os.mkfifo, "link": lambda at: at.symlink_to(other), "folder": os.mkdir}[kind](lock)
    before = other.stat().st_mtime_ns
    done = subprocess.run([TRIREME, "train", path], capture_output=True, text=True, timeout=60)
    check(done, "run/LOCK is not a plain file, as a lock is; remove it")
    assert done.returncode == 4 and other.read_text() == "kept" and other.stat().st_mtime_ns == before


@pytest.mark.parametrize("where,said", [(">&-", "it is closed"), (">/dev/full", "")])
def test_results_that_go_nowhere(tmp_path, made, where, said):
    """Each command that prints results fails, also with long output, which is written before the command ends."""
    plan = ["--model", "frontier-22b", "--cluster", "frontier", "--devices", "16", "--global-batch", "16"]
    for words in (["validate"], ["validate", "--json"], ["plan", *plan], ["simulate", *plan, "--layout", "tensor=4,pipeline=4"], ["board", tmp_path, "--port", "0"],
                  ["compare", made / "run", made / "run"], ["inspect", made / "run", "--json"], ["doctor", "--quick", "--json"],
                  ["prepare", "--tokenizer", "bytes", "--out", tmp_path / "corpus", "--json", made / "text.txt"],
                  ["help", "train"], ["--version"], ["--help"],
                  ["train", made / "run/config.yaml", "--dry-run"], ["tune", "--keys"], ["help", "--man", "train"]):
        done = subprocess.run(["sh", "-c", f'exec "$@" {where}', "sh", TRIREME, *words], capture_output=True, text=True, timeout=120)
        if "was built without libmicrohttpd" not in done.stderr:
            assert done.returncode == 5 and "cannot write to standard output: " + said in done.stderr, (words, done.returncode, done.stderr)


@pytest.mark.parametrize("threads,said", [("100000", "OMP_NUM_THREADS=100000 is more than the "), ("99999999999999999999", "is more than the "),
                                          ("0", "OMP_NUM_THREADS is `0`, which is not a number of threads"), ("-1", "which is not a number of threads"),
                                          ("abc", "OMP_NUM_THREADS is `abc`, which is not a number of threads"), ("1,2", None), (" 1 ", None)])
def test_threads_of_the_environment(tmp_path, made, threads, said):
    """The number of threads in the environment is checked before a loop uses it."""
    environment = {**os.environ, "OMP_NUM_THREADS": threads}
    environment.pop("GOMP_SPINCOUNT", None)
    path = write_run(tmp_path, made, output=str(tmp_path / "run"))
    for words in (["plan", "--model", "gpt2-124m", "--cluster", "frontier", "--devices", "8", "--global-batch", "64"], ["train", path], ["export", tmp_path / "run", tmp_path / "out"],
                  ["eval", tmp_path / "run", made / "corpus/validation"]):
        done = subprocess.run([TRIREME, *words], capture_output=True, text=True, timeout=120, env=environment)
        assert done.returncode == 0, (words, done.stderr)
        assert done.stderr.count("warning: OMP_NUM_THREADS") == (said is not None) and (said or "") in done.stderr, (words, done.stderr)


@pytest.mark.parametrize("asked,spins", [({}, "1000"), ({"GOMP_SPINCOUNT": "77"}, "77"), ({"OMP_WAIT_POLICY": "passive"}, "0")])
def test_spins_of_threads_that_wait(asked, spins):
    """GNU's OpenMP reports the program's own number of spins, unless the user has set a related variable."""
    environment = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run([TRIREME, "--version"], capture_output=True, text=True, timeout=60, env={**environment, **asked, "OMP_DISPLAY_ENV": "verbose"})
    said = re.findall(r"GOMP_SPINCOUNT = '(\d+)'", done.stderr)
    assert done.returncode == 0 and (not said or said[-1] == spins), done.stderr  # another OpenMP does not say it


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *os.sys.argv[1:]]))


@pytest.mark.parametrize("change,said", [
    ("optimizer.lr=1e38", "`lr` under `optimizer:` must be between 0 and 9007199254740992, not 1e38"),
    ("optimizer.lr=1e999", "`lr` under `optimizer:` must be between 0 and 9007199254740992, not 1e999"),
    ("optimizer.lr=-1e-3", "`lr` under `optimizer:` must be at least 0, not -1e-3"),
    ("optimizer.eps=0e5", "`eps` under `optimizer:` must be above 0, not 0e5"),
    ("optimizer.eps=1e17", "must be above 0 and at most 9007199254740992, not 1e17"),
    ("optimizer.betas=[0.9, 1.00]", "`betas` under `optimizer:` must be at least 0 and below 1, not 1.00"),
    ("optimizer.steps=99999999999999999999", "`steps` under `optimizer:` must be between 1 and 1073741824, not 99999999999999999999"),
])
def test_the_bound_that_broke(tmp_path, made, change, said):
    check(trireme("train", write_run(tmp_path, made), "--set", change, status=3), said)


@pytest.mark.parametrize("change,said", [
    ("optimizer.eps=1e-46", "`optimizer.eps` 1e-46 becomes 0 in fp32, in which it is used"),
    ("optimizer.lr=1e-60", "`optimizer.lr` 9.9999999999999997e-61 becomes 0 in fp32"),
    ("optimizer.weight_decay=1e-60", "`optimizer.weight_decay` 9.9999999999999997e-61 becomes 0"),
    ("optimizer.clip=1e-60", "`optimizer.clip` 9.9999999999999997e-61 becomes 0"),
    ("optimizer.betas=[0.9, 0.99999999]", "`optimizer.betas` 0.99999998999999995 becomes 1 in fp32, in which it is used; choose a number"),
    ("model.norm_eps=1e-46", "`model.norm_eps` 1e-46 becomes 0 in fp32"),
    ("model.init_std=1e-46", "`model.init_std` 1e-46 becomes 0 in fp32"),
    ("model.dropout=0.999999999", "`model.dropout` 0.99999999900000003 becomes 1 in fp32"),
])
def test_numbers_that_fp32_loses(tmp_path, made, change, said):
    path = write_run(tmp_path, made)
    check(trireme("train", path, "--set", change, status=3), said)
    check(trireme("train", path, "--set", change, "--set", "precision=bf16", status=3), said)
    trireme("train", path, "--dry-run", "--set", change, "--set", "precision=fp64", "--set", "device=reference")


def test_a_byte_of_zero(tmp_path, made):
    """Files with a NUL byte are refused, instead of being read only up to it: YAML, JSON, JSON lines and lists of merges."""
    said = "a NUL byte, which a text file must not contain"
    path = write_run(tmp_path, made)
    path.write_bytes(path.read_bytes() + b"\n\0\nseed: 1\n")
    check(trireme("train", path, status=3), said, "run.yaml")
    (tmp_path / "model.yaml").write_bytes(yaml_of(MODEL).encode() + b"\n\0")
    check(trireme("inspect", tmp_path / "model.yaml", status=3), said, "model.yaml")
    for name in ("cluster", "system"):
        (tmp_path / f"{name}.yaml").write_bytes(b"name: x\n\0\nfoo: 1\n")
        done = trireme("simulate", "--model", "gpt2-124m", "--cluster", "dgx-h100", "--devices", 8, "--global-batch", 8, "--layout", "tensor=1", f"--{name}",
                       tmp_path / f"{name}.yaml", status=3)
        check(done, said, f"line 2 of {tmp_path}/{name}.yaml")
    (tmp_path / "published.yaml").write_bytes(b"sets: []\n\0")
    check(trireme("validate", tmp_path / "published.yaml", status=3), said)
    (tmp_path / "text.jsonl").write_bytes(b'{"text": "pull"}\n{"text": "the \0 oars"}\n')
    check(trireme("prepare", "--tokenizer", "bytes", "--out", tmp_path / "out", tmp_path / "text.jsonl", status=4), "text.jsonl line 2", "control character 0x0")
    (tmp_path / "tokenizer.json").write_bytes((made / "corpus/tokenizer.json").read_bytes() + b"\0{}")
    check(trireme("prepare", "--tokenizer", tmp_path / "tokenizer.json", "--out", tmp_path / "out", made / "text.txt", status=4), "tokenizer.json", "not valid JSON")


def test_paths_with_no_room(tmp_path, made):
    """The longest `output` that is taken can be saved to, and one byte more is refused before anything is written."""
    def of_length(bytes):
        text = str(tmp_path)
        while len(text) < bytes - 201:
            text += "/" + "x" * 200
        return text + "/" + "y" * (bytes - len(text) - 1)
    longest = of_length(4096 - 256 - 1)
    done = trireme("train", write_run(tmp_path, made, output=longest + "y"), status=3)
    check(done, "`output` has 3840 bytes; with the names of checkpoints below it paths would be longer than the 4095 that they may have; use at most 3839")
    assert not [p for p in tmp_path.iterdir() if p.name.startswith("xx")]
    trireme("train", write_run(tmp_path, made, output=longest))
    assert os.path.isdir(longest + "/checkpoints/step-00000004")
