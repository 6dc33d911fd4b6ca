"""`train --profile`: FLOPs and bytes of the profiled steps in closed form on one and two ranks, the run's bits, and requests that are refused."""
import collections
import json
import re
import shutil
import signal
import subprocess
import time

import pytest
from parity import trireme, words_of, yaml_of

LAYERS, WIDTH, VOCABULARY, SEQUENCE, BATCH, STEPS = 2, 32, 257, 32, 4, 5
MODEL = dict(family="gpt2", num_layers=LAYERS, hidden_size=WIDTH, num_heads=4, vocab_size=VOCABULARY, max_sequence=SEQUENCE)
PROFILED = STEPS - 2  # without the first two steps
LAYOUTS = {"one rank": {}, "recompute": dict(recompute="full"), "tensor 2": dict(tensor=2, sequence_parallel=True), "data 2": dict(data=2, zero=1),
           "pipeline 2": dict(pipeline=2)}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.txt").write_text("".join(f"Line {i}: the rowers pull {i * 7919 % 1000} times.\n" for i in range(2000)))
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt")
    return folder / "data"


def write_run(folder, corpus, **changes):
    run = dict(model=MODEL, data=dict(train=str(corpus / "train"), sequence=SEQUENCE), layout=dict(micro_batch=1), optimizer=dict(global_batch=BATCH, steps=STEPS, lr=1e-3),
               evaluation=dict(every=2), checkpoint=dict(every=0), device="cpu", threads=1, output=str(folder / "run"))
    folder.mkdir(exist_ok=True)
    run.update(changes)
    (folder / "run.yaml").write_text(yaml_of(run))
    return folder / "run.yaml"


def sums(profile, member):
    """{(operation, pass, kernel): sum of a member over the shapes and the ranks, for a step}."""
    found = collections.Counter()
    for rank in profile["ranks"]:
        for row in rank["kernels"]:
            found[row["operation"], row["pass"], row["kernel"]] += row.get(member, 0) / profile["steps"]
    return found


def total(found, kernel, operation=None):
    return sum(value for (name, _, which), value in found.items() if which == kernel and operation in (None, name))


@pytest.mark.parametrize("name", LAYOUTS)
def test_work_in_closed_form(tmp_path, corpus, name):
    layout = LAYOUTS[name]
    ranks = layout.get("tensor", 1) * layout.get("data", 1) * layout.get("pipeline", 1)
    if ranks > 1 and shutil.which("mpiexec") is None:
        pytest.skip("SKIPPED: there is no mpiexec")
    done = trireme("train", write_run(tmp_path, corpus, layout=dict(layout, micro_batch=1)), "-n", ranks, "--profile", tmp_path / "p.svg")
    profile = json.loads((tmp_path / "p.json").read_text())
    assert [rank["rank"] for rank in profile["ranks"]] == list(range(ranks)) and (profile["first_step"], profile["steps"]) == (3, PROFILED)
    assert f"profile of steps 3 to {STEPS}: {tmp_path}/p.svg, and .json with every rank" in done.stderr

    flops, bytes_, tokens, again = sums(profile, "flops"), sums(profile, "bytes"), BATCH * SEQUENCE, "recompute" in layout
    pairs = BATCH * SEQUENCE * (SEQUENCE + 1) / 2
    linear = 3 * 12 + (8 if again else 0)  # in WIDTH^2 of a layer; the output of a layer's last GEMM is not recomputed, since nothing reads it
    assert total(flops, "matmul", "linear") == pytest.approx(2 * tokens * linear * WIDTH**2 * LAYERS, rel=1e-9)
    assert total(flops, "matmul", "cross_entropy") == pytest.approx(6 * tokens * WIDTH * VOCABULARY, rel=1e-9)
    assert total(flops, "attention_forward") == pytest.approx((1 + again) * 4 * pairs * WIDTH * LAYERS, rel=1e-9)
    assert total(flops, "attention_backward") == pytest.approx(10 * pairs * WIDTH * LAYERS, rel=1e-9)
    parameters = LAYERS * (12 * WIDTH**2 + 13 * WIDTH) + (VOCABULARY + SEQUENCE + 2) * WIDTH
    if name in ("one rank", "recompute", "data 2"):  # tensor ranks keep copies of norms, pipeline ranks one of the tied embedding
        assert total(bytes_, "adamw") == 28 * parameters
        assert total(bytes_, "block_squares") == 4 * parameters

    for rank in profile["ranks"]:
        assert 0 < sum(row["seconds"] for row in rank["kernels"]) <= rank["seconds"]
        compared = [row for row in rank["kernels"] if row["kernel"] == "matmul"]
        assert compared and all(row["share"] > 0 and row["loop_flops_per_s"] > 0 for row in compared)
    shares = re.search(r"time of the profiled steps: (.*)", done.stderr).group(1)
    assert "of the rate of the same shapes in a loop)" in shares
    parts = [float(number) for number in re.findall(r"([0-9.]+) %(?! of the rate)", shares)]
    assert sum(parts) == pytest.approx(100, abs=2 if ranks == 1 else 15), shares  # work of a kernel within communication counts twice
    drawing = (tmp_path / "p.svg").read_text()
    assert drawing.count("linear, forward") >= 4 and drawing.endswith("</svg>\n")


def test_the_run_is_the_same(tmp_path, corpus):
    for folder, words in (("plain", ()), ("profiled", ("--profile", tmp_path / "p"))):
        trireme("train", write_run(tmp_path / folder, corpus), *words)
    assert (tmp_path / "p.json").is_file() and (tmp_path / "p.svg").is_file()
    lines = [[json.loads(line) for line in (tmp_path / folder / "run/metrics.jsonl").read_text().splitlines()] for folder in ("plain", "profiled")]
    assert [[line["loss"] for line in of] for of in lines][0] == [line["loss"] for line in lines[1]]
    weights = [(tmp_path / folder / f"run/checkpoints/step-{STEPS:08d}/model.safetensors").read_bytes() for folder in ("plain", "profiled")]
    assert weights[0] == weights[1]


def test_more_tokens_than_columns(tmp_path, corpus):
    """In bf16 the gradient of a wide matrix packs the gradient of its output, also with more tokens than the matrix has columns; the profile does not count as memory of the run."""
    model = dict(MODEL, hidden_size=256, num_layers=1, max_sequence=640)
    run = write_run(tmp_path, corpus, model=model, data=dict(train=str(corpus / "train"), sequence=640), layout=dict(micro_batch=2), optimizer=dict(global_batch=2, steps=3, lr=1e-3),
                    precision="bf16", evaluation=dict(every=0))
    trireme("train", run, "--profile", tmp_path / "p")
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["loss"] is not None and summary["peak_bytes_measured"] <= summary["peak_bytes_predicted"]


def test_a_run_that_ends_within_the_profiled_steps(tmp_path, corpus):
    """The profile has the steps that were made."""
    run = write_run(tmp_path, corpus, data=dict(train=str(corpus / "train"), validation=str(corpus / "train"), sequence=SEQUENCE), optimizer=dict(global_batch=BATCH, steps=9, lr=1e-30),
                    evaluation=dict(every=2, batches=1, stop_after=1))
    done = trireme("train", run, "--profile", tmp_path / "p", "--timeline", tmp_path / "t")
    assert "ended early, after step 4" in done.stderr and "profile of steps 3 to 4" in done.stderr and "is not written" not in done.stderr
    profile = json.loads((tmp_path / "p.json").read_text())
    assert profile["steps"] == 2 and (tmp_path / "t.svg").is_file()
    assert total(sums(profile, "flops"), "matmul", "cross_entropy") == pytest.approx(6 * BATCH * SEQUENCE * WIDTH * VOCABULARY, rel=1e-9)


def test_a_run_that_stops_in_the_profiled_steps(tmp_path, corpus):
    """The state is saved, and no GEMM is measured in a loop."""
    run, lines = write_run(tmp_path, corpus, optimizer=dict(global_batch=256, steps=1000, lr=1e-3), evaluation=dict(every=0)), tmp_path / "run/metrics.jsonl"
    process = subprocess.Popen(words_of("train", run, "--profile", tmp_path / "p"), stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not (lines.exists() and lines.read_text().count("\n") >= 4):
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    said = process.communicate()[1]
    made = int(re.search("interrupted after step ([0-9]+); its checkpoint is written", said).group(1))
    assert 4 <= made < 10 and f"profile of steps 3 to {made}" in said and "--profile: the run stops, so the profile does not compare with the rates of GEMMs in a loop" in said
    rows = [row for rank in json.loads((tmp_path / "p.json").read_text())["ranks"] for row in rank["kernels"]]
    assert any(row["kernel"] == "matmul" for row in rows) and not any("share" in row for row in rows)


def test_requests_that_are_refused(tmp_path, corpus):
    path = write_run(tmp_path, corpus)
    assert f"--profile {tmp_path}/none/p.svg: cannot write to the folder {tmp_path}/none/: " in trireme("train", path, "--profile", tmp_path / "none/p.svg", status=5).stderr
    path = write_run(tmp_path, corpus, device="guarded")
    said = trireme("train", path, "--profile", tmp_path / "p.svg", status=7).stderr
    assert f"--profile {tmp_path}/p.svg: the kernels of the device guarded run after the calls that queue them" in said and "use the vendor's profiler" in said


@pytest.mark.parametrize("timeline, profile, same", [("a.svg", "a.json", True), ("a.svg", "./a.svg", True), ("a", "link/a.svg", True), ("a.svg", "b.svg", False), ("a.svg", "other/a.svg", False)])
def test_two_files_of_one_name(tmp_path, corpus, timeline, profile, same):
    """Names of the timeline and of the profile in one folder, however the folder is named."""
    (tmp_path / "link").symlink_to(".")
    (tmp_path / "other").mkdir()
    done = trireme("train", write_run(tmp_path, corpus, optimizer=dict(global_batch=1, steps=1, lr=1e-3)), "--timeline", timeline, "--profile", profile, cwd=tmp_path, status=2 if same else 0)
    assert ("--timeline and --profile would both write a.svg; give them two names" in done.stderr) == same
