"""The messages of a run before its first step and at its end; the suggested commands work; and comparisons of runs."""
import html.parser
import json
import math
import re
import shlex
import statistics
import subprocess
import xml.etree.ElementTree as xml

import pytest
import yaml
from optimizer_runs import GPT2, LLAMA, corpus_of, lines_of, write_run
from parity import TRIREME, trireme, words_of


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return corpus_of(tmp_path_factory.mktemp("corpus"))


def told(folder, corpus, *options, keys=(), **more):
    return trireme("train", write_run(folder, corpus, dict(dict(steps=6), **dict(keys)), **more), *options).stderr


# ---- at its end ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", ["run", "a run of 'mine' & yours", "with space/run"])
def test_what_is_typed_next(tmp_path, corpus, name):
    """The lines of the end are commands that work, whatever the output is called."""
    output = tmp_path / name
    output.parent.mkdir(exist_ok=True)
    said = told(tmp_path / "file", corpus, output=str(output), evaluation=dict(every=3, batches=2))
    lines = lines_of(output)
    end = re.search(r"6 steps in \S+: loss ([\d.]+), validation loss ([\d.]+)", said)
    assert [float(part) for part in end.groups()] == pytest.approx([lines[-1]["loss"], lines[-1]["validation_loss"]], abs=6e-5)
    assert f"checkpoint {output}/checkpoints/step-00000006; loss.svg and summary.json are in {output}" in said
    commands = [shlex.split(line) for line in said.splitlines() if line.startswith("  trireme ")]
    assert [words[1] for words in commands] == ["generate", "eval"]
    for words in commands:
        done = subprocess.run(words_of(*words[1:], *(["--tokens", 3] if words[1] == "generate" else [])), capture_output=True)
        assert done.returncode == 0 and done.stdout, done
    more = re.search(r"more steps: the same command with --set (\S+)", said)[1]
    assert "12 steps in" in trireme("train", tmp_path / "file/run.yaml", "--set", more).stderr


def test_lowest_and_nothing_saved(tmp_path, corpus):
    """A lowest validation loss that was not the last is named; who saves nothing is not sent to a checkpoint."""
    said = told(tmp_path, corpus, keys=dict(steps=40, lr=0.2), evaluation=dict(every=2, batches=2), checkpoint=dict(every=0, at_end=False))
    looks = [(line["validation_loss"], line["step"]) for line in lines_of(tmp_path / "run") if "validation_loss" in line]
    loss, step = min(looks)
    assert (f"(the lowest was {loss:.4f}, after step {step})" in said) == (loss < looks[-1][0])
    assert "the last step is not saved, since `checkpoint.at_end` is false" in said and "trireme eval" not in said


def test_without_a_held_out_text(tmp_path, corpus):
    said = told(tmp_path, corpus, data=dict(train=str(corpus / "train"), sequence=20))
    assert "validation" not in said.split("6 steps in")[1] and f"  trireme eval {tmp_path}/run {corpus}/train" in said


def means_of(lines):
    """Returns the mean losses of the first and the last tenth of the steps."""
    tenth, losses = len(lines) // 10, [line["loss"] for line in lines]
    return statistics.fmean(losses[:tenth]), statistics.fmean(losses[-tenth:])


def test_a_loss_that_has_risen(tmp_path, corpus):
    """A risen loss is reported with its numbers, and generate is not suggested. All steps count, also those before a stop."""
    told(tmp_path / "before", corpus, keys=dict(steps=150))
    keys, init = dict(steps=30, lr=0.05, warmup=30, clip=0), str(tmp_path / "before/run")
    said = told(tmp_path / "up", corpus, keys=keys, init=init)
    first, last = means_of(lines_of(tmp_path / "up/run"))
    assert last > 1.2 * first
    assert (f"the loss has risen: its mean was {first:.4f} in the first 3 steps and {last:.4f} in the last 3; try a lower optimizer.lr (0.05), "
            "a longer optimizer.warmup (30 steps) or a clipped gradient (optimizer.clip=1), and start over (--resume never)") in said
    assert "trireme generate" not in said and "trireme eval" in said
    said = told(tmp_path / "down", corpus, keys=dict(steps=30))
    first, last = means_of(lines_of(tmp_path / "down/run"))
    assert last < first and "loss has risen" not in said and "trireme generate" in said
    assert "loss has risen" not in told(tmp_path / "short", corpus, keys=dict(keys, steps=19, warmup=19), init=init)
    # In a resumed run all steps count.
    said = trireme("train", tmp_path / "up/run.yaml", "--set", "optimizer.steps=40", "--set", "optimizer.lr=2e-3", "--set", "allow_change=optimizer.lr").stderr
    first, last = means_of(lines_of(tmp_path / "up/run"))
    assert last > first
    assert f"{first:.4f} in the first 4 steps and {last:.4f} in the last 4; try a lower optimizer.lr (0.002)" in said
    assert "optimizer.clip (0.5)" in told(tmp_path / "clipped", corpus, keys=dict(keys, clip=0.5), init=init)


# ---- at its beginning ------------------------------------------------------------------------------------------------

def test_warm_up_of_a_shorter_run(tmp_path, corpus):
    """A run that an option made shorter than its warm-up keeps the share; a file that says so itself is asked to change."""
    run = write_run(tmp_path, corpus, dict(steps=200, warmup=50, lr=1.0))
    said = trireme("train", run, "--set", "optimizer.steps=8").stderr
    assert re.search(r"this run has \d+ steps, fewer than the warm-up of 50; warm-up is shortened to 2\n", said)
    assert [line["lr"] for line in lines_of(tmp_path / "run")][:3] == [0.5, 1.0, 1.0]
    for words in (["--set", "optimizer.steps=60"], ["--set", "optimizer.steps=8", "--set", "optimizer.warmup=3"]):
        assert "fewer than the warm-up" not in trireme("train", run, *words, "--resume", "never").stderr
    for options in (["--set", "optimizer.steps=8", "--set", "optimizer.warmup=9"], ["--set", "optimizer.warmup=300"]):
        done = subprocess.run(words_of("train", run, *options, "--resume", "never"), capture_output=True, text=True)
        steps, warmup = (8, 9) if len(options) == 4 else (200, 300)
        assert done.returncode != 0 and f"`optimizer.warmup` {warmup} is longer than the run of {steps} steps; a tenth would be {steps // 10}" in done.stderr


def test_ignored_ends(tmp_path, corpus):
    """A run that does not learn where documents end says so."""
    data = dict(train=str(corpus / "train"), sequence=20)
    end = json.loads((corpus / "tokenizer.json").read_text())["added_tokens"][-1]["id"]
    words = f"warning: data.ignore_token {end} is the tokenizer's end-of-text token: where documents end is not learnt"
    assert words in told(tmp_path / "end", corpus, data=dict(data, ignore_token=end))
    assert "end-of-text" not in told(tmp_path / "other", corpus, data=dict(data, ignore_token=end - 1))
    assert "end-of-text" not in told(tmp_path / "none", corpus, data=data)


def test_best_peak(tmp_path, corpus, monkeypatch):
    """Kept and found again; a file that is damaged is not believed; "none" keeps nothing. MFU is a share of it."""
    monkeypatch.setenv("TRIREME_CACHE", str(tmp_path / "cache"))
    said = told(tmp_path / "first", corpus)
    assert re.search(r"peak [\d.]+ \S*FLOP/s measured$", said, re.M)
    kept, = (tmp_path / "cache").glob("peak-*")
    text = kept.read_text()
    name, what, flops, _ = text.splitlines()
    assert name == "trireme peak 1" and re.search(r", cpu\b.*, 1 threads, fp32$", what) and float(flops.split()[0]) > 1e6

    def peak_of(folder):
        step = max(lines_of(folder / "run"), key=lambda line: line["mfu"])
        return step["tokens_per_s"] / step["mfu"]

    def sum_of(text):
        hash = 14695981039346656037
        for byte in text.encode():
            hash = (hash ^ byte) * 1099511628211 % 2**64
        return f"{hash:016x}"

    best = f"{name}\n{what}\n1e+18 FLOP/s\n"
    kept.write_text(best + sum_of(best) + "\n")
    said = told(tmp_path / "again", corpus)
    assert re.search(r"peak 1.0 EFLOP/s measured before \(now [\d.]+ \S*FLOP/s\)", said), said
    assert kept.read_text() == best + sum_of(best) + "\n"
    assert peak_of(tmp_path / "again") / 1e18 == pytest.approx(peak_of(tmp_path / "first") / float(flops.split()[0]), rel=1e-6)
    kept.write_text(best + sum_of(best)[:-1] + "!\n")
    assert "measured before" not in told(tmp_path / "damaged", corpus)
    assert re.fullmatch(r"trireme peak 1\n.*\n\S+ FLOP/s\n[0-9a-f]{16}\n", kept.read_text()) and "1e+18" not in kept.read_text()
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    for i, folder in enumerate(("none", str(tmp_path / "file"), "/proc/none")):
        monkeypatch.setenv("TRIREME_CACHE", folder)
        assert re.search(r"peak [\d.]+ \S*FLOP/s measured$", told(tmp_path / f"without-{i}", corpus), re.M)
    assert not (tmp_path / "none").exists()


def test_doctor_knows_the_best_peak(tmp_path, monkeypatch):
    """A machine is judged by the best peak that it ever had, not by the one of the same bad moment."""
    monkeypatch.setenv("TRIREME_CACHE", str(tmp_path / "cache"))
    product = lambda: next(check for check in json.loads(trireme("doctor", "--json").stdout)["checks"] if "product in fp32" in check["name"])
    assert "measured before" not in product()["value"]
    kept = next(path for path in (tmp_path / "cache").glob("peak-*") if "fp32" in path.read_text())
    name, what, _, _ = kept.read_text().splitlines()
    best, hash = f"{name}\n{what}\n1e+18 FLOP/s\n", 14695981039346656037
    for byte in best.encode():
        hash = (hash ^ byte) * 1099511628211 % 2**64
    kept.write_text(f"{best}{hash:016x}\n")
    found = product()
    assert re.fullmatch(r"[\d.]+ GFLOP/s, 0 % of the peak of 1000000000.0 measured before \(now [\d.]+\)", found["value"]) and "look with top" in json.dumps(found)


def test_how_long_at_least(tmp_path, corpus):
    """The least time of a run, that of its FLOPs at the measured peak, is logged before the first step. Models with small products have no such
    line."""
    assert not re.search(r"at that peak|% of peak", told(tmp_path / "small", corpus, keys=dict(steps=30)))
    model = dict(family="llama", num_layers=1, hidden_size=1024, num_heads=4, ffn_size=256, vocab_size=257, max_sequence=24)
    said = told(tmp_path, corpus, keys=dict(steps=3), model=model, layout=dict(micro_batch=6))
    assert re.search(r"3 steps of \S+ tokens in all: at least \S+, at that peak", said)
    at_peak = sum(line["mfu"] * line["step_s"] for line in lines_of(tmp_path / "run"))
    assert float(re.search(r"at least ([\d.]+)s", said)[1]) == pytest.approx(at_peak, abs=0.051)


def test_title(tmp_path, corpus):
    """A model of keys has its run's name, in the log, the summary and the picture; a preset its own."""
    said = told(tmp_path / "file", corpus, output=str(tmp_path / "my first"))
    assert said.startswith("my first: ") and json.loads((tmp_path / "my first/summary.json").read_text())["model"] == "my first"
    assert [text.text for text in xml.parse(tmp_path / "my first/loss.svg").iter("{http://www.w3.org/2000/svg}text")][0] == "my first"
    assert told(tmp_path / "named", corpus, model={**GPT2, "name": "oars"}).startswith("oars: ")


# ---- comparisons -----------------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def runs(tmp_path_factory, corpus):
    folder = tmp_path_factory.mktemp("runs")
    for name, keys, model in (("a", dict(steps=12), LLAMA), ("b", dict(steps=30, lr=1e-3), GPT2), ("<c> & \"d\"", dict(steps=5), LLAMA)):
        told(folder / "file", corpus, keys=keys, model=model, evaluation=dict(every=5, batches=1), output=str(folder / name))
    return [folder / name for name in ("a", "b", "<c> & \"d\"")]


def test_compared(runs):
    found = json.loads(trireme("compare", *runs, "--json").stdout)
    for run, mine in zip(runs, found):
        lines, summary = lines_of(run), json.loads((run / "summary.json").read_text())
        looks = [(line["validation_loss"], line["step"]) for line in lines if "validation_loss" in line]
        assert mine["run"] == str(run) and mine["steps"] == len(lines) and mine["loss"] == lines[-1]["loss"]
        assert (mine["best_validation_loss"], mine["best_validation_step"]) == min(looks) and mine["validation_loss"] == looks[-1][0]
        assert math.isclose(mine["seconds"], sum(line["step_s"] for line in lines), rel_tol=1e-9)
        assert math.isclose(mine["tokens_per_s"], summary["tokens_per_s"], rel_tol=1e-12) and mine["model"] == summary["model"]
        assert statistics.median(line["tokens_per_s"] for line in lines[min(10, len(lines) // 10):]) == pytest.approx(mine["tokens_per_s"], rel=1e-12)
    table = trireme("compare", *runs).stdout.splitlines()
    assert table[4:6] == ["", "keys that differ"] and all(str(run) in line for run, line in zip(runs, table[1:]))


def flat(value, name=""):
    """The keys of a config.yaml by their full names."""
    if not isinstance(value, dict):
        return {name: value}
    return {key: last for child, part in value.items() for key, last in flat(part, f"{name}.{child}" if name else child).items()}


def test_keys_that_differ(tmp_path, runs):
    """`compare runs/*` leaves out what is not a run, and shows the keys whose values differ, as PyYAML reads them."""
    folder = runs[0].parent
    (tmp_path / "refused").mkdir()
    (tmp_path / "refused/failures.txt").write_text("refused\n")
    (tmp_path / "study.db").write_text("")
    done = trireme("compare", *runs, tmp_path / "refused", tmp_path / "study.db")
    assert done.stdout == trireme("compare", *runs).stdout
    for name in ("refused", "study.db"):
        assert f"{tmp_path / name} is left out: it is not a run's output (no metrics.jsonl)" in done.stderr
    assert sorted(run["run"] for run in json.loads(trireme("compare", folder, "--json").stdout)) == sorted(map(str, runs))
    configs = [flat(yaml.safe_load((run / "config.yaml").read_text())) for run in runs]
    differ = [key for key in configs[0] if key not in ("output", "model.name") and any(config[key] != configs[0][key] for config in configs)]
    assert {"optimizer.steps", "optimizer.lr", "model.family"} <= set(differ)
    for run, config in zip(json.loads(trireme("compare", *runs, "--json").stdout), configs):
        assert list(run["differing_keys"]) == differ
        assert {key: yaml.safe_load(text) for key, text in run["differing_keys"].items()} == {key: config[key] for key in differ}
    table = done.stdout.split("keys that differ\n")[1]
    rates = [config["optimizer.lr"] for config in configs]
    assert re.search(rf"optimizer\.lr +{rates[0]}: {re.escape(f'{runs[0]} {runs[2]}')}\n +{rates[1]}: {re.escape(str(runs[1]))}\n", table) and rates[0] == rates[2]
    for words, answer in ([[tmp_path / "refused"], "no folder below it has one with a step"], [[tmp_path / "refused", tmp_path / "study.db"], "none of these folders is the output of a run with a step"]):
        assert answer in subprocess.run([TRIREME, "compare", *map(str, words)], capture_output=True, text=True).stderr


@pytest.mark.parametrize("course,last", [("step", 30), ("tokens", 3600), ("time", None)])
def test_one_picture(tmp_path, runs, course, last):
    """Curves end where their runs do, on one scale; ticks are 1, 2 or 5 times a power of ten apart."""
    trireme("compare", *runs, "--by", course, "--svg", tmp_path / "all.svg")
    root = xml.parse(tmp_path / "all.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    curves = [path.get("d") for path in root.iter(space + "path")]
    ends = [float(re.findall(r"[ML]([\d.]+) ", curve)[-1]) for curve in curves]
    assert len(curves) == 3 and len(list(root.iter(space + "circle"))) == sum("validation_loss" in line for run in runs for line in lines_of(run))
    if last is not None:
        assert ends[1] == 880 - 28 and ends[1] > ends[0] > ends[2]
        left, width = 72, 880 - 28 - 72
        first = 1 if course == "step" else 120
        assert ends[0] == pytest.approx(left + width * (12 * last / 30 - first) / (last - first), abs=0.06)
    ticks = [float(text.text) for text in root.iter(space + "text") if text.get("text-anchor") == "middle" and re.fullmatch(r"[\d.]+", text.text)]
    apart = {round(b - a, 9) for a, b in zip(ticks, ticks[1:])}
    assert len(apart) == 1 and f"{apart.pop():e}"[0] in "125"
    assert {str(run)[-36:] for run in runs} <= {text.text[-36:] for text in root.iter(space + "text")}


def test_page(tmp_path, runs):
    class Page(html.parser.HTMLParser):
        def __init__(self):
            super().__init__()
            self.tags, self.words, self.links = [], [], []

        def handle_starttag(self, tag, attributes):
            self.tags.append(tag)
            self.links += [value for key, value in attributes if key in ("src", "href") and not value.startswith("data:")]

        def handle_data(self, data):
            self.words.append(data.strip())

    trireme("compare", *runs, "--html", tmp_path / "all.html")
    page = Page()
    page.feed((tmp_path / "all.html").read_text())
    assert page.tags.count("svg") == 3 and "script" not in page.tags and not page.links
    keys = json.loads(trireme("compare", *runs, "--json").stdout)[0]["differing_keys"]
    assert page.tags.count("tr") == 4 + 1 + len(keys) and set(keys) <= set(page.words) and all(str(run) in page.words for run in runs)


def test_while_a_run_goes_on(tmp_path, runs):
    """A last line that is half written is passed over; a folder that is not a run's, and one without a step, are named."""
    raw = (runs[0] / "metrics.jsonl").read_bytes()
    (tmp_path / "half").mkdir()
    (tmp_path / "half/metrics.jsonl").write_bytes(raw[:-20])
    assert json.loads(trireme("compare", tmp_path / "half", "--json").stdout)[0]["steps"] == 11
    (tmp_path / "none").mkdir()
    for words, answer in (([tmp_path / "none"], "is not a run's output: it has no metrics.jsonl"), ([tmp_path / "nowhere"], "nowhere does not exist"),
                          ([], "which runs?"), ([tmp_path, "--by", "speed"], "--by is step, tokens or time, not `speed`")):
        done = subprocess.run([TRIREME, "compare", *map(str, words)], capture_output=True, text=True)
        assert done.returncode != 0 and answer in done.stderr
    (tmp_path / "none/metrics.jsonl").write_text("")
    assert "has made no step yet" in subprocess.run([TRIREME, "compare", tmp_path / "none"], capture_output=True, text=True).stderr
