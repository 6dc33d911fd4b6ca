"""Silent errors of other trainers, from public reports, tested on our runs and data: the comparisons of a resumed run, messages that contradict
the run, parts of conversations that are not read."""
import json
import os
import shutil
import subprocess

import numpy as np
import pytest
from parity import trireme, yaml_of

MODEL = dict(family="gpt2", num_layers=1, hidden_size=32, num_heads=2, vocab_size=257, max_sequence=32)
CHAT_TOOL = os.path.join(os.environ["TRIREME_TOOLS"], "chat_tool")


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """`first`, and `second`, which is harder for a model that learns the first."""
    folder = tmp_path_factory.mktemp("corpora")
    for name, letters in (("first", "the rowers pull"), ("second", "QZXJ 0123#%&@~")):
        (folder / f"{name}.txt").write_text("".join(f"{letters[i % 7:]} {i * 7919 % 1000}\n" for i in range(1500)))
        trireme("prepare", "--tokenizer", "bytes", "--validation", 0.1, "--out", folder / name, folder / f"{name}.txt")
    return folder


def write_run(folder, corpora, **changes):
    run = dict(model=MODEL, data=dict(train=str(corpora / "first/train"), validation=str(corpora / "first/validation"), sequence=32),
               layout=dict(micro_batch=2), optimizer=dict(global_batch=4, steps=8, lr=1e-2), evaluation=dict(every=2, sequences=8),
               checkpoint=dict(every=0), seed=5, threads=1, output=str(folder / "run"))
    for key, value in changes.items():
        run[key] = {**run[key], **value} if isinstance(value, dict) and isinstance(run.get(key), dict) else value
    path = folder / "run.yaml"
    path.write_text(yaml_of(run))
    return path


def looks_of(folder):
    lines = [json.loads(line) for line in open(folder / "run/metrics.jsonl")]
    return {line["step"]: line["validation_loss"] for line in lines if "validation_loss" in line}


# ---- the lowest validation loss, where what is measured has changed ------------------------------------------------------

@pytest.mark.parametrize("key", ["data.validation", "evaluation.sequences", "data.sequence"])
def test_another_validation_loss(tmp_path, corpora, key):
    """After a change of the validation data, the old lowest loss neither ends the run nor remains the best."""
    judged = dict(evaluation=dict(stop_after=2), checkpoint=dict(best=True))
    trireme("train", write_run(tmp_path, corpora, **judged))
    before = looks_of(tmp_path)
    other = {"data.validation": dict(data=dict(validation=str(corpora / "second/validation"))), "evaluation.sequences": dict(evaluation=dict(sequences=16, stop_after=2)),
             "data.sequence": dict(data=dict(sequence=16), allow_change="data.sequence")}[key]
    done = trireme("train", write_run(tmp_path, corpora, **{**judged, **other, "optimizer": dict(steps=14)}))
    assert done.stderr.count(f"with another {key} validation losses do not compare: the lowest so far, {min(before.values()):.4f} after step ") == 1
    later = {step: loss for step, loss in looks_of(tmp_path).items() if step > 8}
    best = min(later, key=later.get)
    assert os.readlink(tmp_path / "run/checkpoints/best") == f"step-{best:08d}"
    newest = sorted((tmp_path / "run/checkpoints").glob("step-*"))[-1]
    assert json.loads((newest / "state.json").read_text())["progress"]["best_loss"] == later[best]
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["best_validation_step"] == best and summary["best_validation_loss"] == pytest.approx(later[best], rel=1e-12)
    if key == "data.validation":
        assert min(later.values()) > min(before.values())  # else nothing would have ended


def test_the_same_validation_loss(tmp_path, corpora):
    trireme("train", write_run(tmp_path, corpora, checkpoint=dict(best=True)))
    done = trireme("train", write_run(tmp_path, corpora, checkpoint=dict(best=True), optimizer=dict(steps=14, lr=1e-9), evaluation=dict(every=3), allow_change="optimizer.lr"))
    assert "do not compare" not in done.stderr


def test_no_best_checkpoint_yet(tmp_path, corpora):
    """A run that branches from another run's checkpoint takes over its lowest loss, but has no checkpoint with it."""
    trireme("train", write_run(tmp_path, corpora, checkpoint=dict(best=True)))
    folder = tmp_path / "run/checkpoints/step-00000008"
    lowest = json.loads((folder / "state.json").read_text())["progress"]
    branch = dict(checkpoint=dict(best=True), optimizer=dict(steps=12, lr=1e-12), output=str(tmp_path / "branch"))
    done = trireme("train", write_run(tmp_path, corpora, **branch), "--resume", folder)
    assert (f"warning: the lowest validation loss so far, {lowest['best_loss']:.4f} after step {lowest['best_step']}, has no checkpoint here: "
            f"{tmp_path / 'branch/checkpoints/best'} will point to the first with a lower one") in done.stderr
    done = trireme("train", write_run(tmp_path, corpora, checkpoint=dict(best=True), optimizer=dict(steps=12)))
    assert "has no checkpoint here" not in done.stderr


# ---- warnings without a reason -------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", ["adamw", "muon", "lion", "sgd", "schedule_free", "adafactor", "galore", "fira", "average", "factors"])
def test_what_an_optimizer_keeps_is_not_left_out(tmp_path, corpora, name):
    """A run that goes on has a place for all that its optimizer and its average keep."""
    more = dict(average=dict(every=1)) if name in ("average", "factors") else dict(optimizer=dict(name=name))
    if name in ("galore", "fira"):
        more["optimizer"][name] = dict(rank=4)
    if name == "factors":
        trireme("train", write_run(tmp_path, corpora, output=str(tmp_path / "base")))
        more |= dict(init=str(tmp_path / "base"), adapter=dict(rank=2))
    steps = more.get("optimizer", {})
    trireme("train", write_run(tmp_path, corpora, **{**more, "optimizer": dict(steps, steps=2)}))
    done = trireme("train", write_run(tmp_path, corpora, **{**more, "optimizer": dict(steps, steps=4)}))
    assert "after step 2" in done.stderr and "left out" not in done.stderr, done.stderr


def test_begun_with_weights_of_an_averaged_run(tmp_path, corpora):
    said = "also has an average of the weights, which is not used here; to start from the average, export it first: trireme export --average"
    for every in (0, 1):
        base = tmp_path / f"base-{every}"
        trireme("train", write_run(tmp_path, corpora, average=dict(every=every), output=str(base)))
        done = trireme("train", write_run(tmp_path, corpora, init=str(base), output=str(tmp_path / f"from-{every}")))
        assert (said in done.stderr) == (every > 0) and "left out" not in done.stderr


def test_shares_of_a_changed_mixture(tmp_path, corpora):
    """metrics.jsonl counts sources by the current mixture; a change of the mixture gives a message about that."""
    def mixture(first, second):
        return dict(data=dict(train=[dict(path=str(corpora / "first/train"), weight=first), dict(path=str(corpora / "second/train"), weight=second)]))
    trireme("train", write_run(tmp_path, corpora, **mixture(9, 1)))
    changed = mixture(1, 9) | dict(optimizer=dict(steps=10))
    said = "`sources` in metrics.jsonl and summary.json count as if all samples so far had been read so"
    assert said in trireme("train", write_run(tmp_path, corpora, **changed), status=3).stderr
    assert said in trireme("train", write_run(tmp_path, corpora, **changed, allow_change="data.train")).stderr


def test_held_out_text_that_is_learnt(tmp_path, corpora):
    """By its content, not by its name."""
    shutil.copytree(corpora / "first", tmp_path / "copy")
    for i, (validation, learnt) in enumerate([(corpora / "first/train", True), (tmp_path / "copy/train", True), (tmp_path / "copy/validation", False)]):
        done = trireme("train", write_run(tmp_path, corpora, data=dict(validation=str(validation)), output=str(tmp_path / f"run{i}")))
        said = f"warning: data.validation has the same content as {corpora / 'first/train'}, which the run trains on, so its loss does not measure other text"
        assert done.stderr.count(said) == learnt, done.stderr


# ---- keys that change nothing ---------------------------------------------------------------------------------------------

IDLE = {  # case: (keys of the run file, warnings)
    "nothing": (dict(), []),
    "constant": (dict(optimizer=dict(decay="constant", min_lr=1e-4)), ["optimizer.min_lr 0.0001 is not reached: with this optimizer.decay the rate of the last step is 0.01"]),
    "cosine": (dict(optimizer=dict(decay="cosine", min_lr=1e-4)), []),
    "wsd": (dict(optimizer=dict(decay="wsd", min_lr=1e-4)), []),
    "a short wsd": (dict(optimizer=dict(decay="wsd", decay_fraction=0.01)), ["optimizer.decay_fraction 0.01 of 8 steps is less than one step: the rate does not fall"]),
    "only warm-up": (dict(optimizer=dict(warmup=8, min_lr=1e-4)), []),
    "average": (dict(average=dict(decay=0.5)), ["average.decay and average.after change nothing: with average.every 0 no average is kept"]),
    "averages": (dict(average=dict(decay=0.5, every=1)), []),
    "muon": (dict(optimizer=dict(muon=dict(momentum=0.5))), ["optimizer.muon.momentum 0.5 changes nothing: no group of parameters has that optimizer (optimizer.name)"]),
    "of a group": (dict(optimizer=dict(muon=dict(momentum=0.5), matrices=dict(name="muon"))), []),
    "by name": (dict(optimizer=dict(name="sgd", sgd=dict(momentum=0.5))), []),
}


@pytest.mark.parametrize("case", IDLE)
def test_keys_that_change_nothing(tmp_path, corpora, case):
    changes, said = IDLE[case]
    done = trireme("train", write_run(tmp_path, corpora, **changes))
    assert [line for line in done.stderr.split("\n") if line.startswith("warning: ")] == [f"warning: {line}" for line in said]


@pytest.mark.parametrize("adapter", [dict(alpha=16), dict(dropout=0.1), dict(alpha=16, rank=0), {"from": "factors"}])
def test_an_adapter_without_a_rank(tmp_path, corpora, adapter):
    """Which would train the whole model."""
    said = "`adapter.from` is set, and adapter.rank is 0" if "from" in adapter else "`adapter.rank` is 0, so the run has no adapter"
    assert said in trireme("train", write_run(tmp_path, corpora, adapter=adapter), status=3).stderr
    assert not (tmp_path / "run").exists()


# ---- the line that says how text was judged ------------------------------------------------------------------------------

def test_as_in_training_or_not(tmp_path, corpora):
    trireme("train", write_run(tmp_path, corpora))

    def line(*options, model=tmp_path / "run"):
        done = trireme("eval", model, corpora / "first/validation", *options)
        return next(line for line in done.stderr.split("\n") if line.startswith("in sequences of "))

    windows = "(documents: joined, packing: windows)"
    assert line() == f"in sequences of 32 tokens {windows}, as in training"
    assert line("--sequence", 8) == f"in sequences of 8 tokens {windows}, as set by the options, otherwise as in training"
    assert line("--sequence", 8, "--documents", "joined", "--packing", "windows") == f"in sequences of 8 tokens {windows}, as the options say"


# ---- inputs of prepare ---------------------------------------------------------------------------------------------------

def test_json_under_another_name(tmp_path):
    (tmp_path / "lines.txt").write_text('{"text": "a"}\n{"text": "b"}\n')
    (tmp_path / "prose.txt").write_text("{a} is a set\n")
    (tmp_path / "lines.jsonl").write_text('{"text": "a"}\n')
    for name, said in (("lines.txt", True), ("prose.txt", False), ("lines.jsonl", False)):
        done = trireme("prepare", "--tokenizer", "bytes", "--validation", 0, "--force", "--out", tmp_path / "out", tmp_path / name)
        assert ("is read as plain text, although its first line is JSON, so keys and quotes are learnt, too" in done.stderr) == said, done.stderr


def test_a_page_as_a_text(tmp_path):
    """A page of HTML gives a warning, since it may be intended; binary input, and text about pages, do not."""
    (tmp_path / "page.txt").write_text("\n<!DOCTYPE html>\n<html><body>Access denied</body></html>\n")
    (tmp_path / "prose.txt").write_text("A page begins with <!DOCTYPE html>.\n")
    for words, said in ((["page.txt"], 1), (["prose.txt"], 0), (["--binary", "page.txt"], 0)):
        done = trireme("prepare", "--tokenizer", "bytes", "--validation", 0, "--force", "--out", tmp_path / "out", *words, cwd=tmp_path)
        assert done.stderr.count("page.txt is taken as plain text, though it looks like a page of HTML: ") == said, done.stderr


def test_one_file_twice(tmp_path):
    (tmp_path / "a.txt").write_text("text\n" * 20)
    shutil.copy(tmp_path / "a.txt", tmp_path / "b.txt")
    (tmp_path / "link.txt").symlink_to("a.txt")
    for names, pair in ((["a.txt", "b.txt"], None), (["a.txt", "b.txt", "a.txt"], ("a.txt", "a.txt")), (["link.txt", "b.txt", "a.txt"], ("link.txt", "a.txt"))):
        done = trireme("prepare", "--tokenizer", "bytes", "--validation", 0, "--force", "--out", tmp_path / "out", *(tmp_path / name for name in names))
        said = [line for line in done.stderr.split("\n") if "are one file" in line]
        expected = [f"warning: {tmp_path / pair[0]} and {tmp_path / pair[1]} are one file: its documents are in the corpus twice, "
                    "and held-out ones may be among the learnt"] if pair else []
        assert said == expected


# ---- parts of conversations ----------------------------------------------------------------------------------------------

ASKED, ANSWERED = dict(role="user", content="q"), dict(role="assistant", content="a")
SHARED = [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]
WHOLE, WITHOUT = "<system>S</system><user>q</user><assistant>a</assistant>", "<user>q</user><assistant>a</assistant>"
SYSTEM = {  # case: (a line, its rendered text or words of the error message)
    "messages": (dict(system="S", messages=[ASKED, ANSWERED]), WHOLE),
    "roles under ShareGPT's key": (dict(system="S", conversations=[ASKED, ANSWERED]), WHOLE),
    "ShareGPT": (dict(system="S", conversations=SHARED), WHOLE),
    "strings": (dict(system="S", prompt="q", completion="a"), WHOLE),
    "lists": (dict(system="S", prompt=[ASKED], completion=[ANSWERED]), WHOLE),
    "null": (dict(system=None, messages=[ASKED, ANSWERED]), WITHOUT),
    "empty": (dict(system="", conversations=SHARED), WITHOUT),
    "said twice": (dict(system="S", messages=[dict(role="system", content="S"), ASKED, ANSWERED]), WHOLE),
    "two of them": (dict(system="S", conversations=[{"from": "system", "value": "T"}, *SHARED]), "and the first message, which is a system message, differ"),
    "a number": (dict(system=3, messages=[ASKED, ANSWERED]), "`system`: `content` is a number"),
    "functions": (dict(functions=[dict(name="f")], messages=[ASKED, ANSWERED]), "`functions` is the older form of `tools`"),
    "train_detail": (dict(messages=[ASKED, dict(ANSWERED, train_detail=[dict(begin_offset=0, end_offset=1, train=False)])]), "`train_detail` names parts of an answer"),
}


def chat(folder, given, *options, status=0):
    (folder / "t.jinja").write_text("{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}"
                                       "{% if add_generation_prompt %}<assistant>{% endif %}")
    (folder / "chat.jsonl").write_text(json.dumps(given) + "\n")
    return trireme("prepare", "--chat", "--chat-template", folder / "t.jinja", "--tokenizer", "bytes", "--validation", 0, "--out", folder / "out", folder / "chat.jsonl",
                   *options, status=status)


@pytest.mark.parametrize("case", SYSTEM)
def test_beside_the_messages(tmp_path, case):
    given, expected = SYSTEM[case]
    if not expected.startswith("<"):
        assert expected in chat(tmp_path, given, status=7 if case == "train_detail" else 4).stderr
        return
    chat(tmp_path, given)
    ids = (tmp_path / "out/train.bin").read_bytes()[::2]
    learnt = bytes(token for token, mask in zip(ids, (tmp_path / "out/train.mask").read_bytes()) if mask)
    assert ids.decode() == expected and learnt == b"a</assistant>"


def test_the_system_without_a_template(tmp_path):
    done = chat(tmp_path, dict(system="S", prompt="q", completion="a"), "--chat-template", "none", status=4)
    assert "`system` cannot be used if `prompt` and `completion` are plain text" in done.stderr


# ---- answers that are not seen -----------------------------------------------------------------------------------------

def test_truncated_before_the_answer(tmp_path, corpora):
    """Half of the conversations ask for longer than a sequence; held-out ones all do."""
    long, short = dict(messages=[dict(ASKED, content="q" * 80), ANSWERED]), dict(messages=[ASKED, ANSWERED])
    (tmp_path / "t.jinja").write_text("{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}")
    for name, lines in (("some", [long, short]), ("none", [long, long])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines * 10))
        trireme("prepare", "--chat", "--chat-template", tmp_path / "t.jinja", "--tokenizer", "bytes", "--validation", 0, "--out", tmp_path / name, tmp_path / f"{name}.jsonl")
    said = "warning: 10 of these are truncated before anything that is learnt, and teach nothing; raise data.sequence, or leave them out with data.too_long: drop"
    nothing = "warning: none of the labels of the held-out text counts, so there is no validation loss; check data.sequence, data.too_long and data.ignore_token"
    model = dict(MODEL, max_sequence=64)
    for rule, validation in (("truncate", "none"), ("drop", "some")):
        data = dict(train=str(tmp_path / "some/train"), validation=str(tmp_path / validation / "train"), sequence=64, too_long=rule)
        done = trireme("train", write_run(tmp_path, corpora, model=model, data=data, output=str(tmp_path / rule)))
        assert done.stderr.count(said) == (rule == "truncate") and done.stderr.count(nothing) == (validation == "none"), done.stderr
    # The last label of a truncated conversation is not counted: the answer has to begin within the sequence.
    ids, mask = np.fromfile(tmp_path / "none/train.bin", np.uint16), np.fromfile(tmp_path / "none/train.mask", np.uint8)
    begin = int(mask.argmax())
    assert len(ids) == len(mask) and begin > 64
    for sequence, teaches in ((begin, False), (begin + 1, True)):
        data = dict(train=str(tmp_path / "some/train"), sequence=sequence, too_long="truncate")
        done = trireme("train", write_run(tmp_path, corpora, model=dict(MODEL, max_sequence=256), data=data, evaluation={}, checkpoint={}, output=str(tmp_path / f"at {sequence}")))
        assert ("are truncated before anything that is learnt" in done.stderr) == (not teaches), (sequence, done.stderr)
    done = trireme("eval", tmp_path / "truncate", tmp_path / "none/train", status=4)
    assert "no label counts, since none of its answers is within the first 64 tokens of a conversation (too_long: truncate)" in done.stderr


# ---- loops of templates: values are Jinja's 3.1 --------------------------------------------------------------------------

LOOPS = {
    "{% for i in [1, 2] %}{% for j in [3] %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}{{ loop.depth }}{% endfor %}": "101101",
    "{% for i in [1, 2] %}{% break %}{% else %}none{% endfor %}": "none",
    "{% for i in [1, 2] %}{{ i }}{% continue %}{% else %}none{% endfor %}": "12none",
    "{% for i in [1, 2] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% else %}none{% endfor %}": "1",
    "{% for i in [1, 2] %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% else %}none{% endfor %}": "2",
    "{% for i in [1] %}{% for j in [] %}{% else %}{% break %}{% endfor %}{{ i }}{% else %}none{% endfor %}": "none",
    "{% for i in [1, 2] if i > 2 %}{{ i }}{% else %}none{% endfor %}": "none",
}


@pytest.mark.parametrize("template", LOOPS)
def test_loops(tmp_path, template):
    jinja2 = pytest.importorskip("jinja2")
    assert jinja2.Environment(extensions=["jinja2.ext.loopcontrols"]).from_string(template).render() == LOOPS[template]
    (tmp_path / "t.jinja").write_text(template)
    done = subprocess.run([CHAT_TOOL, tmp_path / "t.jinja"], input="{}\n", capture_output=True, text=True)
    assert json.loads(done.stdout)["text"] == LOOPS[template]
