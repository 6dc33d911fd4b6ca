"""`trireme validate` from the user's side: rows of any model in YAML and as comma-separated values, published memory, errors
by effect, and figures of clusters that no machine has."""
import csv
import json
import math
import os
import pathlib
import re
import subprocess

import pytest

TRIREME = os.environ["TRIREME"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
GIB = 2.0**30


def run(*arguments, status=0):
    done = subprocess.run([TRIREME, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == status, (arguments, done.stderr)
    return done.stdout if status == 0 else done.stderr


def write(path, value):
    path.write_text(json.dumps(value))  # JSON is YAML
    return path


SET = dict(name="mine", cluster="selene-a100-80", system="megatron-lm-2021")
GPT = dict(layers=24, hidden=2048, heads=16, vocab=51200)


def validate(folder, *rows, status=0, **more):
    path = write(folder / "published.yaml", dict(sets=[dict(SET, **more) | (dict(rows=list(rows)) if rows else {})]))
    if status != 0:
        return run("validate", path, status=status)
    return json.loads(run("validate", path, "--json"))[0]


def simulate(folder, model, devices, batch, sequence, layout, *more, cluster=SET["cluster"], system=SET["system"]):
    words = ",".join(f"{key}={str(value).lower()}" for key, value in layout.items())
    if isinstance(model, dict):
        model = write(folder / "model.yaml", model)
    return json.loads(run("simulate", "--model", model, "--cluster", cluster, "--system", system, "--devices", devices, "--global-batch", batch,
                          "--sequence", sequence, "--layout", words, "--json", *more))


# ---- rows -----------------------------------------------------------------------------------------------------------

PUBLISHED = dict(recompute="full", balance="layers")  # defaults of rows
LLAMA = dict(family="llama", layers=16, hidden=2048, heads=16, kv_heads=4, ffn=5632, vocab=32000)


@pytest.mark.parametrize("row,model,layout", [
    (dict(GPT, tensor=2, pipeline=2, micro_batch=2, global_batch=64, devices=16),
     dict(family="gpt2", num_layers=24, hidden_size=2048, num_heads=16, vocab_size=51200, max_sequence=2048),
     dict(tensor=2, pipeline=2, micro_batch=2)),
    (dict(LLAMA, tensor=4, sequence_parallel=True, recompute="none", global_batch=32, devices=16),
     dict(family="llama", num_layers=16, hidden_size=2048, num_heads=16, num_kv_heads=4, ffn_size=5632, vocab_size=32000, max_sequence=2048),
     dict(tensor=4, sequence_parallel=True, recompute="none")),
    (dict(LLAMA, tied=True, pipeline=4, virtual_stages=2, recompute_every=2, global_batch=32, data=2, precision="fp32"),
     dict(family="llama", num_layers=16, hidden_size=2048, num_heads=16, num_kv_heads=4, ffn_size=5632, vocab_size=32000, max_sequence=2048, tied=True),
     dict(pipeline=4, virtual_stages=2, schedule="interleaved", recompute_every=2)),
    (dict(GPT, pipeline=4, schedule="zero-bubble", recompute="none", global_batch=32, devices=8), 
     dict(family="gpt2", num_layers=24, hidden_size=2048, num_heads=16, vocab_size=51200, max_sequence=2048),
     dict(pipeline=4, schedule="zero-bubble", recompute="none")),
    (dict(model="llama-3-8b", layers=8, sequence=4096, tensor=8, global_batch=8, devices=8), None, dict(tensor=8)),
])
def test_rows_of_any_model(tmp_path, row, model, layout):
    """A row is predicted as `simulate` predicts what it describes, memory included."""
    found = validate(tmp_path, dict(row, name="it", step_s=1.0))["rows"][0]
    if model is None:  # a preset with fewer layers
        text = (ROOT / "configs/models/llama-3-8b.yaml").read_text()
        model = tmp_path / "small.yaml"
        model.write_text(text.replace("num_layers: 32", "num_layers: 8"))
    devices = row.get("devices", 8)
    precision = ["--precision", row["precision"]] if "precision" in row else []
    expected = simulate(tmp_path, model, devices, row["global_batch"], row.get("sequence", 2048), PUBLISHED | layout, *precision)
    assert found["predicted_s"] == pytest.approx(expected["step_s"], rel=1e-12) and found["devices"] == devices
    assert found["predicted_bytes"] == expected["memory"]["peak"] and found["error"] == pytest.approx(expected["step_s"] - 1)
    assert found["fits"] == expected["fits"] and found["published_bytes"] is None


def test_what_was_published(tmp_path):
    """The same run in every unit that papers have."""
    row = dict(GPT, tensor=2, micro_batch=4, devices=8, global_batch=32)
    seconds = 1.25
    tokens = 32 * 2048
    h, layers, s, v = 2048, 24, 2048, 51200
    model = 72 * tokens * layers * h * h * (1 + s / (6 * h) + v / (12 * layers * h))  # Narayanan et al. 2021, without recomputing
    whole = 96 * tokens * layers * h * h * (1 + s / (6 * h) + v / (16 * layers * h))
    words = dict(step_s=seconds, step_ms=1e3 * seconds, tokens_s=tokens / 8 / seconds, model_tflops=model / 8 / seconds / 1e12,
                 tflops=whole / 8 / seconds / 1e12)
    found = validate(tmp_path, *[dict(row, name=key, **{key: value}) for key, value in words.items()])
    for one in found["rows"]:
        assert one["published_s"] == pytest.approx(seconds, rel=1e-9), one["name"]
        assert one["published_tflops"] == pytest.approx(words["tflops"], rel=1e-9)


def test_comma_separated(tmp_path):
    """The same rows in YAML and as a table, whose columns its first line or the set names; `each` holds what they share."""
    rows = [dict(tensor=t, pipeline=p, micro_batch=m, step_s=1.0 + t + p / 8 + m / 64) for t in (1, 2, 4) for p in (1, 2) for m in (1, 4)]
    each = dict(GPT, devices=8, global_batch=32)
    plain = validate(tmp_path, *[each | row for row in rows])
    keys = list(rows[0])
    (tmp_path / "rows.csv").write_text("# measured on a Tuesday\n" + ",".join(keys) + "\n" +
                                       "".join(",".join(str(row[key]) for key in keys) + "\r\n\n" for row in rows))
    assert validate(tmp_path, each=each, rows_from="rows.csv") == plain
    (tmp_path / "foreign.csv").write_text("TP, PP, \"note, long\",mb ,iteration time (ms)\n" + "".join(
        f"{row['tensor']}, {row['pipeline']},\"a, b\",{row['micro_batch']},{1e3 * row['step_s']}\n" for row in rows))
    renamed = validate(tmp_path, each=each, rows_from="foreign.csv", columns="tensor, pipeline, -, micro_batch, step_ms")
    assert [r["predicted_s"] for r in renamed["rows"]] == [r["predicted_s"] for r in plain["rows"]]
    assert [r["published_s"] for r in renamed["rows"]] == pytest.approx([r["published_s"] for r in plain["rows"]])
    both = validate(tmp_path, each | rows[0], each=dict(each, hidden=1024), rows_from="rows.csv")
    assert len(both["rows"]) == 1 + len(rows) and both["rows"][0] == plain["rows"][0], "a row's own keys win"
    assert both["rows"][1]["predicted_s"] < plain["rows"][0]["predicted_s"]


def test_thousands_of_rows(tmp_path):
    """More than a YAML file may have."""
    with open(tmp_path / "rows.csv", "w") as file:
        file.write("layers,hidden,heads,vocab,devices,tensor,global_batch,step_s,mem_gb\n")
        file.writelines(f"2,256,4,512,4,{1 << i % 3},{4 + 4 * (i // 3)},0.01,\n" for i in range(3000))
    found = validate(tmp_path, rows_from="rows.csv")
    assert len(found["rows"]) == 3000 and found["judged"] == 3000


@pytest.mark.parametrize("row,said", [
    (dict(GPT, devices=8, global_batch=8, step_s=1, tensr=2), "`tensr` is not a key of a row at line 1 of .*; did you mean `tensor`?"),
    (dict(GPT, devices=8, global_batch=8, step_s=1, num_layers=2), "`num_layers` is not a key of a row"),
    (dict(GPT, devices=8, step_s=1), "`global_batch` is missing"),
    (dict(layers=2, heads=2, vocab=64, devices=8, global_batch=8, step_s=1), "`hidden` is missing .* for example `hidden: 12288`"),
    (dict(GPT, global_batch=8, step_s=1), "neither `devices` nor `data`; give one of them"),
    (dict(GPT, devices=8, global_batch=8), "no published result; give one of `step_s`"),
    (dict(GPT, devices=8, global_batch=8, step_s=1, tflops=100), "more than one of `step_s`, `step_ms`, `tflops`"),
    (dict(GPT, devices=8, global_batch=8, step_s=1, memory="oom"), "`memory` is oom, but a time is given"),
    (dict(GPT, devices=8, global_batch=8, mem_gb=1, mem_gib=1), "both `mem_gb` and `mem_gib`; keep one"),
    (dict(GPT, devices=8, global_batch=8, mem_gb=30, fit=True), "`fit` is true, and no time was published"),
    (dict(GPT, devices=8, global_batch=8, tensor=3, step_s=1), "tensor"),
    (dict(GPT, devices=8, global_batch=8, context=8, sequence=4, step_s=1), "leaves ranks without a token"),
    (dict(GPT, devices=8, global_batch=8, step_s=1, family="gpt3"), "gpt2, llama"),
    (dict(GPT, devices=8, global_batch=8, step_s=1, recompute="some"), "none, selective, experts, full"),
    (dict(model="llama-3-8c", sequence=64, devices=8, global_batch=8, step_s=1), "did you mean `llama-3-8b`"),
    (dict(model="llama-3-8b", devices=8, global_batch=8, step_s=1), "`sequence` is missing; a row with `model` says how long its sequences were"),
    (dict(LLAMA, kv_heads=3, devices=8, global_batch=8, step_s=1), "num_kv_heads"),
    (dict(GPT, devices=8, global_batch=-1, step_s=1), "global_batch"),
])
def test_wrong_rows(tmp_path, row, said):
    out = validate(tmp_path, dict(row, name="the wrong one"), status=3)
    assert re.search(said, out), out
    assert "the wrong one" in out or "`hidden`" in out or "missing" in out or "is not a key" in out


@pytest.mark.parametrize("text,said", [
    ("layers,hidden\n1,2,3\n", r"the row at line 2 of \S+/rows.csv has 3 values, and there are 2 columns"),
    ("layers,hiden,heads,vocab,devices,global_batch,step_s\n2,64,2,64,1,1,1\n", r"`hiden` is not a key of a row at line 2 of \S+/rows.csv; did you mean `hidden`"),
    ("layers,layers\n1,2\n", "the list of columns at line 1 of .* has `layers` twice"),
    ("layers,hidden,heads,vocab,devices,global_batch,step_s\n2,64,2,64,1,1,fast\n", r"`step_s` at line 2 of \S+/rows.csv must be a number"),
    ("layers,hidden,heads,vocab,devices,global_batch,step_s\n2,64,2,64,1,1,\n", r"the row \S+.* at line 2 of \S+/rows.csv: no published result"),
    ("# nothing\n\n", "the set `mine` has no rows; give `rows`, or `rows_from: FILE.csv`"),
    ("layers\0\n", "contains a NUL byte"),
])
def test_wrong_tables(tmp_path, text, said):
    (tmp_path / "rows.csv").write_text(text)
    assert re.search(said, validate(tmp_path, rows_from="rows.csv", status=3))


def test_wrong_sets(tmp_path):
    assert "`rows_from` names" in validate(tmp_path, rows_from="none.csv", status=3)
    assert "has no rows" in validate(tmp_path, status=3)
    assert "`each` at line 1" in validate(tmp_path, dict(GPT), each=[1], status=3)
    assert "`rows` at line 1" in validate(tmp_path, status=3, rows="x.csv")
    assert "did you mean `rows_from`" in validate(tmp_path, dict(GPT), rows_form="x.csv", status=3)
    assert "has no set `megatrom`; they are frontier, frontier-log, megatron" in run("validate", "--set", "megatron,megatrom", status=2)


# ---- memory ---------------------------------------------------------------------------------------------------------

def test_memory_of_a_sweep(tmp_path):
    """BigScience's figures of nvidia-smi, and runs that had too little: with the scores of unfused attention, the context, the
    buffers of communicators and fragments. One row set the share of fragments."""
    found = json.loads(run("validate", "--set", "sweep-176b", "--json"))[0]
    weighed = [row for row in found["rows"] if row["published_bytes"]]
    assert len(weighed) == 10 and found["memory_rows"] == 10
    errors = [row["predicted_bytes"] / row["published_bytes"] - 1 for row in weighed]
    assert [row["memory_error"] for row in weighed] == pytest.approx(errors)
    assert found["memory_mean_error"] == pytest.approx(sum(map(abs, errors)) / 10) and found["memory_signed_error"] == pytest.approx(sum(errors) / 10)
    assert found["memory_mean_error"] <= 0.06 and max(map(abs, errors)) <= 0.12
    assert (found["out_of_memory"], found["out_of_memory_said_to_fit"], found["said_not_to_fit"]) == (2, 0, 0)
    for row in found["rows"]:
        assert row["fits"] != row["out_of_memory"] and (row["published_s"] is None) == (row["error"] is None) == row["out_of_memory"]
    said = run("validate", "--set", "sweep-176b")
    assert "2 runs ran out of memory; 0 of them are predicted to fit. 0 of the runs that finished are predicted not to fit." in said
    assert re.search(r"\| h14336 l72 a112 2x6x32 mb1 gb2048 \| out of memory \| \d+\.\d \|.* no \|  \|", said)


def test_published_runs_fit():
    """No published run of the program's sets is predicted to be too large, except a model that is computed with a different attention, and that
    stored some of its activations in FP8; and 1 % too much of Llama 3 405B on 8,192 devices, whose fp32 gradients are whole until the last micro-batch."""
    for found in json.loads(run("validate", "--json")):
        too_large = [row["name"] for row in found["rows"] if not row["fits"] and not row["out_of_memory"]]
        if found["set"] == "deepseek-v3":
            continue
        assert found["said_not_to_fit"] == len(too_large)
        if found["set"] == "llama3-405b":
            assert too_large == ["405B on 8192"] and found["rows"][0]["predicted_bytes"] < 1.01 * 79.65 * 2**30
            continue
        assert not too_large, (found["set"], too_large)


def system(folder, **more):
    base = dict(name="s", planned=False, weight_bytes=2, gradient_bytes=2, state_bytes=12, whole_recompute=True)
    return write(folder / "system.yaml", base | more)


MODEL = dict(family="gpt2", num_layers=8, hidden_size=1024, num_heads=16, vocab_size=4096, max_sequence=2048)


@pytest.mark.parametrize("recompute,again,layers_that_stay", [("none", True, 8), ("selective", True, 0), ("selective", False, 8), ("full", True, 0)])
@pytest.mark.parametrize("tensor,pipeline", [(1, 1), (2, 1), (1, 4), (2, 2)])
def test_scores(tmp_path, recompute, again, layers_that_stay, tensor, pipeline):
    """Unfused attention keeps 5 a s^2 b bytes for each layer (Korthikanti et al. 2022), and 4 more during its backward. If `selective` recomputes
    attention, it keeps none."""
    layout = dict(tensor=tensor, pipeline=pipeline, micro_batch=2, recompute=recompute, balance="layers")
    memory = {flash: simulate(tmp_path, MODEL, tensor * pipeline, 32, 2048, layout, system=system(tmp_path, flash_attention=flash, selective_attention=again))["memory"]
              for flash in (True, False)}
    square = 2 * 16 / tensor * 2048**2
    in_flight = pipeline  # on the first stage, which needs the most memory
    more = square * (5 * layers_that_stay / pipeline * in_flight + (4 if layers_that_stay else 9))
    assert memory[False]["activations"] - memory[True]["activations"] == pytest.approx(more, rel=1e-9)


def test_beside_the_tensors(tmp_path):
    """The context, buffers for each group of ranks, and fragments as a share of all tensors."""
    layout = dict(tensor=2, pipeline=2, micro_batch=2, recompute="full", balance="layers")

    def peak(devices, layout, **more):
        return simulate(tmp_path, MODEL, devices, 32, 2048, layout, system=system(tmp_path, **more))["memory"]["peak"]
    plain = peak(8, layout)
    assert peak(8, layout, context_bytes=1.5e9) - plain == pytest.approx(1.5e9)
    assert peak(8, layout, communicator_bytes=1e9) - plain == pytest.approx(5e9), "the world, three axes, the model"
    assert peak(1, dict(layout, tensor=1, pipeline=1), communicator_bytes=1e9) == peak(1, dict(layout, tensor=1, pipeline=1))
    assert peak(8, layout, fragments=0.25) == pytest.approx(1.25 * plain)
    assert peak(8, layout, fragments=0.25, context_bytes=1e9) == pytest.approx(1.25 * plain + 1e9), "the context has none"


def test_gathered_again(tmp_path):
    """Sequence parallelism: two gathered inputs of a layer are kept, or gathered again."""
    layout = dict(tensor=2, sequence_parallel=True, recompute="none", balance="layers")
    kept, again = (simulate(tmp_path, MODEL, 2, 8, 2048, layout, system=system(tmp_path, gathers_again=g))["memory"]["activations"] for g in (False, True))
    one = 2048 * 1024 * 2
    assert kept - again == pytest.approx((2 * 8 - 1) * one, rel=1e-9), "of eight layers, but for one"


# ---- reports --------------------------------------------------------------------------------------------------------

def test_effects():
    """Errors by what a step shows, from the rows themselves; and over all sets those of each, by their rows."""
    sets = json.loads(run("validate", "--json"))
    effects = {s["set"]: {e["effect"]: e for e in s["effects"]} for s in sets}
    node = next(s for s in sets if s["set"] == "a100-node")
    with open(ROOT / "configs/published/a100-node.csv") as file:
        given = list(csv.DictReader(line for line in file if not line.startswith("#")))
    assert len(given) == len(node["rows"]) == 720 and sum(row["fitted"] for row in node["rows"]) <= 36
    for effect, shows in (("tensor wide (8 and more)", lambda g: int(g["tensor"]) >= 8), ("micro-batches of 1", lambda g: g["micro_batch"] == "1"),
                          ("one node, or a part of it", lambda g: True)):
        errors = [row["error"] for row, g in zip(node["rows"], given) if shows(g) and not row["fitted"]]
        found = effects["a100-node"][effect]
        assert found["rows"] == len(errors) > 20
        assert found["mean_error"] == pytest.approx(sum(map(abs, errors)) / len(errors)) and found["signed_error"] == pytest.approx(sum(errors) / len(errors))
        assert found["worst_error"] == pytest.approx(max(map(abs, errors)))
    assert "across nodes" not in effects["a100-node"] and "ZeRO 3" in effects["megatron-zero3"] and "host-bound (over 10 % of the step)" in effects["a100-node"]
    said = run("validate")
    for effect in {name for by in effects.values() for name in by}:
        rows = [by[effect] for by in effects.values() if effect in by]
        count = sum(row["rows"] for row in rows)
        mean = sum(row["rows"] * row["mean_error"] for row in rows) / count
        assert f"| {effect} | {count} | {100 * mean:.1f} % |" in said
    assert re.search(r"Of 720 rows those that are furthest off; `--json` has all\.", said) and len(said) < 60000


def test_several_sets():
    """A line for each, in the order of the file, however they are named."""
    lines = [re.findall(r"^\| (\S+) \| \d+ \| [\d.]+ % \|", run("validate", *words), re.M)
             for words in (["--set", "megatron,frontier"], ["--set", "frontier", "--set", "megatron"])]
    assert lines == [["frontier", "megatron"]] * 2
    assert [s["set"] for s in json.loads(run("validate", "--set", "korthikanti", "--set", "torchtitan,frontier", "--json"))] == [
        "frontier", "korthikanti", "torchtitan"]


def ranks_of(values):
    ordered = sorted(values)
    return [ordered.index(v) + (ordered.count(v) - 1) / 2 for v in values]


def correlation(rows):
    a, b = ranks_of([row["published_s"] for row in rows]), ranks_of([row["predicted_s"] for row in rows])
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    spread = math.sqrt(sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b))
    return sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b)) / spread


def test_order_within_a_model():
    """Spearman's, of every model, number of devices and batch with four rows or more."""
    found = json.loads(run("validate", "--set", "a100-node", "--json"))[0]
    with open(ROOT / "configs/published/a100-node.csv") as file:
        given = list(csv.DictReader(line for line in file if not line.startswith("#")))
    groups = {}
    for row, g in zip(found["rows"], given):
        groups.setdefault((g["hidden"], g["layers"], g["devices"], g["global_batch"]), []).append(row)
    ranks = [correlation(rows) for rows in groups.values() if len(rows) >= 4]
    assert found["rank_correlation"] == pytest.approx(min(ranks)) and found["mean_rank_correlation"] == pytest.approx(sum(ranks) / len(ranks))
    assert f"{sum(ranks) / len(ranks):.2f} (least of {len(ranks)}: {min(ranks):.2f})" in run("validate", "--set", "a100-node,frontier")


# ---- sets that come with the program --------------------------------------------------------------------------------

def test_fitted_rows_are_few():
    for found in json.loads(run("validate", "--json")):
        fitted, rows = sum(row["fitted"] for row in found["rows"]), len(found["rows"])
        assert fitted <= 1 or fitted <= 0.08 * rows or found["set"] == "megatron", (found["set"], fitted, rows)


@pytest.mark.parametrize("change,said", [
    (dict(launch=5), r"`launch` is 5, which no machine has; the value must be between 0 and 1, and is usually 5e-07 to 4e-05 \(a launch alone is 2 to 5 us"),
    (dict(start=200), "`start` is 200, which no machine has"),
    (dict(matmul=1e-4), "`matmul` is 0.0001, which no machine has"),
    (dict(matmul_half=1e7), "`matmul_half` is 1e"),
])
def test_impossible_machines(tmp_path, change, said):
    cluster = dict(hypothetical=True, node_devices=8, peak_bf16=1e14, vector_flops=1e13, memory_bytes=64e9, memory_bandwidth=1e12,
                   links=[dict(name="all", bandwidth=1e10, latency=1e-6)],
                   efficiency=dict(matmul=0.5, matmul_half=10.0, attention=0.5, memory=0.5, link=0.5, launch=1e-6) | change)
    out = run("simulate", "--model", "gpt2-124m", "--cluster", write(tmp_path / "c.yaml", cluster), "--devices", 8, "--global-batch", 8, "--layout",
              "tensor=1", status=3)
    assert re.search(said, out), out
    cluster["efficiency"] |= dict(launch=1e-6, matmul=0.5, matmul_half=10.0, start=0)
    cluster["links"][0]["latency"] = 200
    out = run("simulate", "--model", "gpt2-124m", "--cluster", write(tmp_path / "c.yaml", cluster), "--devices", 8, "--global-batch", 8, "--layout",
              "tensor=1", status=3)
    assert "`links.latency` is 200, which no machine has" in out
