"""Layers of each stage, and gathers that are done again in the backward, in plans and in run files."""
import json
import os
import re
import subprocess
import time

import pytest

from test_plan import IDEAL, MODEL, TRIREME, run, simulate, write

META = ["--model", "llama-3-405b", "--cluster", "dgx-h100", "--devices", 16384, "--global-batch", 2048, "--sequence", 8192]
OWN = "tensor=8,pipeline=16,virtual_stages=8,schedule=interleaved,sequence_parallel=true,zero=1"
LLAMA_70B = ["--model", "llama-3-70b", "--cluster", "dgx-h100", "--devices", 64, "--global-batch", 64, "--sequence", 4096]
GIB = 2**30


def refused(*words):
    done = subprocess.run([TRIREME, *map(str, words)], capture_output=True, text=True)
    assert done.returncode != 0, done.stdout
    return done.stderr


# ---- gathering again ----------------------------------------------------------------------------------------------------

def test_the_layout_of_llama_3_fits():
    """If gathered rows are kept, it is too large by half. If they are gathered again, it fits, as in another program that does so."""
    kept, again = (json.loads(run("simulate", *META, "--layout", f"{OWN},{more}recompute=selective", "--json")) for more in ("", "sequence_regather=true,"))
    assert kept["memory"]["peak"] > 1.3 * again["memory"]["peak"] and again["fits"] and not kept["fits"]
    assert again["step_s"] > kept["step_s"]
    other = json.loads(run("simulate", *META, "--layout", OWN.replace("zero=1", "zero=2"), "--system", "llama3-2024", "--json"))
    assert other["layout"]["sequence_regather"] is True
    alone = json.loads(run("simulate", *META, "--layout", f"{OWN},sequence_regather=true", "--json"))
    assert alone["memory"]["activations"] == pytest.approx(other["memory"]["activations"], rel=0.02)
    best = json.loads(run("plan", *META, "--top", 1, "--json"))[0]
    assert best["layout"]["sequence_regather"] is True and best["layout"]["recompute"] == "selective"
    assert best["step_s"] <= again["step_s"]


@pytest.mark.parametrize("recompute, gathers", [("none", 2), ("selective", 2), ("full", 0)])
def test_price_of_gathering_again(tmp_path, recompute, gathers):
    """One more all-gather for the input of each layer's two pairs of products, of the rows of a micro-batch in bf16, each of the
    ranks sending its part around a ring; where all of a layer runs again it does that anyway."""
    cluster = dict(IDEAL, node_devices=4, links=[dict(name="all", spans=4, bandwidth=1e9, latency=0.0)])
    layout = dict(tensor=4, sequence_parallel=True, recompute=recompute)
    kept, again = (simulate(tmp_path, MODEL, cluster, 4, 4, **layout, sequence_regather=value) for value in (False, True))
    gathered = MODEL["max_sequence"] * MODEL["hidden_size"] * 2
    expected = 4 * MODEL["num_layers"] * gathers * gathered * 3 / 4 / 1e9
    assert again["step_s"] - kept["step_s"] == pytest.approx(expected, rel=0.02, abs=1e-12)
    assert (again["memory"]["peak"] < kept["memory"]["peak"]) == (gathers > 0)


@pytest.mark.parametrize("layout, system, said", [
    ("tensor=8,pipeline=4,sequence_regather=true", "trireme", "`layout.sequence_regather` gathers again what layout.sequence_parallel gathers, and that is false; set layout.sequence_parallel to true"),
    ("tensor=8,pipeline=4,sequence_parallel=true,sequence_regather=false", "llama3-2024", "layout.sequence_regather is false, but the system llama3-2024 always gathers again"),
    ("tensor=8,pipeline=4,sequence_parallel=true,sequence_regather=true", "torchtitan-eager", "the system torchtitan-eager keeps the gathered inputs"),
])
def test_what_a_system_does_not_do(layout, system, said):
    assert said in refused("simulate", *LLAMA_70B, "--system", system, "--layout", layout)
    if "gathers again what" not in said:
        assert said in refused("plan", *LLAMA_70B, "--system", system, "--layout", layout.split(",")[-1])


# ---- layers of each stage -----------------------------------------------------------------------------------------------

def test_layers_of_stages(tmp_path):
    """Parameters are on the stages of the list; the numbers of an equal division give the same plan."""
    layers = {}
    for numbers in ("[4,4]", "[2,6]", "[0,8]"):
        out = run("simulate", "--model", write(tmp_path / "model.yaml", dict(MODEL, num_layers=8)), "--cluster", write(tmp_path / "cluster.yaml", IDEAL), "--sequence", MODEL["max_sequence"],
                  "--devices", 2, "--global-batch", 4, "--layout", f"pipeline=2,stage_layers={numbers}", "--stages", "--json")
        layers[numbers] = [stage["parameters"] for stage in json.loads(out)["stages"]]
    even, uneven, none = layers["[4,4]"], layers["[2,6]"], layers["[0,8]"]
    each = (even[0] - none[0]) / 4
    assert even[0] - uneven[0] == pytest.approx(2 * each) and uneven[1] - even[1] == pytest.approx(2 * each)
    divided, given = (simulate(tmp_path, dict(MODEL, num_layers=8), IDEAL, 2, 4, pipeline=2, **more) for more in (dict(balance="layers"), dict(stage_layers="[4,4]")))
    assert (divided["step_s"], divided["memory"]) == (given["step_s"], given["memory"])


def test_search_keeps_the_given_layers():
    found = json.loads(run("plan", *LLAMA_70B, "--layout", "stage_layers=[19,21,21,19]", "--top", 50, "--json"))
    assert {tuple(answer["layout"]["stage_layers"]) for answer in found} == {(19, 21, 21, 19)}
    assert {answer["layout"]["pipeline"] * answer["layout"]["virtual_stages"] for answer in found} == {4}
    brute = json.loads(run("plan", *LLAMA_70B, "--layout", "stage_layers=[19,21,21,19],tensor=4", "--top", 4, "--exhaustive", "--json"))
    pruned = json.loads(run("plan", *LLAMA_70B, "--layout", "stage_layers=[19,21,21,19],tensor=4", "--top", 4, "--json"))
    assert [a["step_s"] for a in brute] == pytest.approx([a["step_s"] for a in pruned], rel=1e-9)
    assert "stage_layers=[19,21,21,19]" in run("plan", *LLAMA_70B, "--layout", "stage_layers=[19,21,21,19]")


BAD_LAYERS = [
    ("[19,21,21]", "`layout.stage_layers` has 3 numbers, and pipeline 4 x virtual_stages 1 = 4 stages: give one for each"),
    ("[19,21,21,20]", "`layout.stage_layers` sums to 81 layers, and the model has 80; change its numbers by -1 in all"),
    ("[19,21,0,40]", "gives no layer to stage 3 of 4; only the first"),
    ("[19,21,21,x]", "must be whole numbers in brackets, `[a, b, ...]`"),
    ("19", "must be whole numbers in brackets, `[a, b, ...]`, not `19`"),
    ("[19,21,21,-1]", "must be between 0 and 16384, not -1"),
    ("[20,20,20,20],balance=layers", "layout.balance=layers both set the layers of each stage; leave one of them out"),
    ("[20,20,20,20", "not valid YAML"),
    ("[" + ",".join("1" * 300) + "]", "may have at most 256 numbers"),
]


@pytest.mark.parametrize("given, said", BAD_LAYERS, ids=[given[:20] for given, _ in BAD_LAYERS])
def test_bad_layers(given, said):
    assert said in refused("simulate", *LLAMA_70B, "--layout", f"tensor=8,pipeline=4,stage_layers={given}")


def test_bad_layers_of_a_run(tmp_path):
    """With the file and its line, before anything else is done."""
    (tmp_path / "bad.yaml").write_text("""model: {family: gpt2, num_layers: 4, hidden_size: 32, num_heads: 2, vocab_size: 257, max_sequence: 64}
data: {train: nowhere, sequence: 16}
layout:
  pipeline: 2
  stage_layers: [1, 2]
optimizer: {steps: 2, lr: 1e-3, warmup: 0, global_batch: 4}
output: run
""")
    said = refused("train", tmp_path / "bad.yaml", "-n", 2)
    assert f"sums to 3 layers, and the model has 4; change its numbers by 1 in all (line 5 of {tmp_path}/bad.yaml)" in said
    said = refused("train", tmp_path / "bad.yaml", "-n", 2, "--set", "layout.stage_layers=[2,2]", "--set", "layout.sequence_regather=true")
    assert said.startswith("trireme: --set layout.sequence_regather=true: `layout.sequence_regather` gathers again what")


# ---- how far a search is ------------------------------------------------------------------------------------------------

def test_progress_of_a_long_search():
    """A search of some seconds says how far it is, on standard error; a short one says nothing."""
    begun = time.monotonic()
    words = ["plan", "--model", "mixtral-8x22b", "--cluster", "dgx-h100", "--devices", "512", "--global-batch", "1024", "--sequence", "4096"]
    done = subprocess.run([TRIREME, *words], capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    slow = time.monotonic() - begun > 3  # six on two cores of 2026
    assert done.returncode == 0
    assert not slow or re.search(r"searching: [\d,]+ (valid layouts so far|layouts simulated, at most [\d,]+ are left), \d+ s", done.stderr), done.stderr
    assert "searching" not in done.stdout
    short = subprocess.run([TRIREME, "plan", "--model", "gpt2-124m", "--cluster", "dgx-h100", "--devices", "8", "--global-batch", "64"], capture_output=True, text=True)
    assert short.returncode == 0 and "searching" not in short.stderr
