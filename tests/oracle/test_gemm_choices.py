"""How matrix products are made: chosen once for all ranks, written down, found again by a run that goes on, chosen again where
they cannot hold. On the emulated GPU, whose own kernel comes in several tiles."""
import json
import shutil
import subprocess

import pytest
from parity import program_of, trireme

MODEL = dict(family="gpt2", num_layers=2, hidden_size=16, num_heads=2, vocab_size=257, max_sequence=16, dropout=0.1)
needs_mpi = pytest.mark.skipif(shutil.which("mpiexec") is None, reason="SKIPPED: there is no mpiexec")
LAYOUTS = {1: {}, 2: dict(pipeline=2)}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.txt").write_text("".join(f"Stroke {i} of {i * 7919 % 1000}.\n" for i in range(400)))
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt")
    return folder / "data"


def write_run(folder, corpus, ranks, **more):
    run = dict(model=MODEL, data=dict(train=str(corpus / "train"), sequence=16), layout=dict(micro_batch=1, **LAYOUTS[ranks]),
               optimizer=dict(global_batch=2, steps=2, lr=1e-2), evaluation=dict(every=0), checkpoint=dict(every=1), threads=1,
               seed=3, device="emulated", precision="fp64", output=str(folder / "run"))
    (folder / "run.yaml").write_text(json.dumps({**run, **more}))
    return folder / "run.yaml"


def train(path, ranks, *words):
    done = subprocess.run([program_of(path, *words), "train", path, *(["-n", str(ranks)] if ranks > 1 else []), *words], capture_output=True,
                          text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stderr


def losses(folder):
    return [json.loads(line)["loss"] for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]


def choices(folder):
    return json.loads((folder / "run" / "products.json").read_text())


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=needs_mpi)])
@pytest.mark.parametrize("timed", ["false", "true"])
def test_written_down_and_found_again(tmp_path, corpus, ranks, timed):
    path = write_run(tmp_path, corpus, ranks)
    said = train(path, ranks, "--set", f"time_products={timed}")
    first = choices(tmp_path)
    assert first["timed"] == (timed == "true")
    assert first["chooser"].startswith("tiled ") and "emulated" in first["chooser"]
    assert f"{len(first['choices'])} matrix products chosen{' by timing' if timed == 'true' else ''}" in said
    products = [line.split(" : ")[0] for line in first["choices"]]
    assert len(set(products)) == len(products)
    # The vocabulary's product is the last stage's alone, and the first rank chose it.
    assert any(line.split()[3] == "257" for line in products)
    said = train(path, ranks, "--set", "optimizer.steps=3", "--set", f"time_products={timed}")
    assert "matrix products chosen" not in said
    assert choices(tmp_path) == first


@needs_mpi
def test_ranks_take_what_the_first_has(tmp_path, corpus):
    """Every choice turned round in the file: all ranks make their products so, in both of their sums."""
    path = write_run(tmp_path, corpus, 1)
    train(path, 1)
    plain = losses(tmp_path)
    kept = choices(tmp_path)
    other = [line[:-2] + ("00" if line.endswith("01") else "01") for line in kept["choices"]]
    sum_ = 14695981039346656037
    for byte in (kept["chooser"] + "".join(line + "\n" for line in other)).encode():
        sum_ = (sum_ ^ byte) * 1099511628211 % 2**64
    (tmp_path / "run" / "products.json").write_text(json.dumps({**kept, "choices": other, "sum": f"{sum_:016x}"}))
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    train(path, 1)
    assert choices(tmp_path)["choices"] == other
    assert losses(tmp_path) == pytest.approx(plain, rel=1e-12)


def test_damaged_file_is_chosen_anew(tmp_path, corpus):
    path = write_run(tmp_path, corpus, 1)
    train(path, 1)
    first, file = choices(tmp_path), tmp_path / "run" / "products.json"
    whole = file.read_text()
    for damage, why in [("", "is not valid JSON at line 1, column 0"), ("{", "is not valid JSON at line 1, column 1"),
                        (whole[:len(whole) // 2], "is not valid JSON at line"), ("[]", "is not a list of how products are made"),
                        (json.dumps({**first, "version": 2}), "has format version 2, and this program reads version 1"),
                        (json.dumps({**first, "sum": "0" * 16}), "is damaged: its sum is not that of its choices"),
                        (json.dumps({**first, "choices": [first["choices"][0].replace(" : ", " : 1")]}), "is damaged: its sum"),
                        (whole + " " * (16 << 20), "is larger than the 16.00 MiB that such a file may have")]:
        file.write_text(damage)
        said = train(path, 1)
        assert f"warning: GEMM algorithms are tuned again, and sums may differ in their last bits: {file} {why}" in said
        assert said.count("products.json") == 1
        assert choices(tmp_path) == first
    # Reading this one fails, even for root; it is replaced, and what it leads to stays.
    file.unlink()
    file.symlink_to("/proc/self/mem")
    assert f"cannot read {file}: Input/output error" in train(path, 1)
    assert choices(tmp_path) == first and not file.is_symlink()


def test_other_chooser(tmp_path, corpus):
    path = write_run(tmp_path, corpus, 1)
    train(path, 1)
    first = choices(tmp_path)
    said = train(path, 1, "--set", "optimizer.steps=3", "--set", "device=emulated:warp=64")
    assert "GEMM algorithms are tuned again, and sums may differ in their last bits" in said
    assert choices(tmp_path)["chooser"] != first["chooser"]


def test_another_layout_adds_to_it(tmp_path, corpus):
    path = write_run(tmp_path, corpus, 1)
    train(path, 1)
    first = choices(tmp_path)["choices"]
    said = train(path, 1, "--set", "layout.micro_batch=2", "--set", "optimizer.steps=3")
    both = choices(tmp_path)["choices"]
    assert both[:len(first)] == first and len(both) > len(first)
    assert f"{len(both) - len(first)} matrix products chosen and {len(first)} kept" in said


def test_nothing_to_choose(tmp_path, corpus):
    path = write_run(tmp_path, corpus, 1, device="reference", time_products=True, allow_tf32=True)
    train(path, 1)
    assert not (tmp_path / "run" / "products.json").exists()
