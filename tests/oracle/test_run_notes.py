"""Notes that are copied with weights: how text became sequences, and the type of the weights that a run began with. eval gives one number for a
run, its export, an adapter and its merge; documents and packing depend on the mask of the corpus, in new runs only; samples that are too
long are cut, truncated or dropped."""
import json
import math
import struct

import numpy
import pytest
from parity import trireme, yaml_of

SEQUENCE = 24
MODEL = dict(family="llama", num_layers=1, hidden_size=32, num_heads=2, ffn_size=64, vocab_size=260, max_sequence=64)
TEMPLATE = "{% for m in messages %}{% if m.role == 'user' %}U{{ m.content }}{% else %}A{% generation %}{{ m.content }}.{% endgeneration %}{% endif %}{% endfor %}"


def conversation(question, answer):
    return json.dumps(dict(messages=[dict(role="user", content=question), dict(role="assistant", content=answer)])) + "\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Prepares texts, and conversations, two of them longer than a sequence."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "texts.jsonl").write_text("".join(json.dumps(dict(text="The ship sails at " + str(i) + " o'clock." * (i % 4))) + "\n" for i in range(60)))
    trireme("prepare", "--tokenizer", "bytes", "--validation", 0, "--out", folder / "texts", folder / "texts.jsonl")
    (folder / "t.jinja").write_text(TEMPLATE)
    (folder / "chat.jsonl").write_text("".join(conversation("q" * (1 + i % 5), "a" * (i % 9 + 1)) for i in range(40)) + conversation("long", "x" * 40) * 2)
    trireme("prepare", "--chat", "--chat-template", folder / "t.jinja", "--tokenizer", folder / "texts", "--validation", 0, "--out", folder / "chat", folder / "chat.jsonl")
    return folder


def train(folder, corpus, *words, status=0, **changes):
    folder.mkdir(exist_ok=True)
    data = dict(train=str(corpus), sequence=SEQUENCE) | changes.pop("data", {})
    run = dict(data=data, optimizer=dict(global_batch=4, steps=2, lr=1e-2), layout=dict(micro_batch=4), threads=1, output=str(folder / "run"))
    if "init" not in changes:
        run["model"] = MODEL
    run.update(changes)
    (folder / "run.yaml").write_text(yaml_of(run))
    return trireme("train", folder / "run.yaml", *words, status=status)


def evaluate(folder, corpus, *words):
    done = trireme("eval", folder, corpus, "--json", *words)
    read = json.loads(done.stdout)
    return read["loss"], (read["sequence"], read["documents"], read["packing"]), done.stderr


def types_of(folder):
    raw = (folder / "model.safetensors").read_bytes()
    header = json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]])
    return {entry["dtype"] for name, entry in header.items() if name != "__metadata__"}


def settled(folder):
    data = {}
    for line in (folder / "run/config.yaml").read_text().splitlines():
        key, _, value = line.strip().partition(": ")
        if key in ("documents", "packing", "too_long"):
            data[key] = value.split()[0].strip('"')
    return data["documents"], data["packing"], data["too_long"]


# ---- one number --------------------------------------------------------------------------------------------------------

PROTOCOLS = {"windows": dict(), "masked windows": dict(documents="masked"), "packed": dict(documents="masked", packing="documents"),
             "packed, dropped": dict(documents="masked", packing="documents", too_long="drop"), "an ignored token": dict(ignore_token=101)}


@pytest.mark.parametrize("case", PROTOCOLS)
def test_an_export_is_evaluated_as_its_run(made, tmp_path, case):
    for corpus in ("texts", "chat"):
        train(tmp_path / corpus, made / corpus / "train", data=PROTOCOLS[case])
        run = tmp_path / corpus / "run"
        trireme("export", run, tmp_path / f"{corpus}-hf")
        trireme("import", tmp_path / f"{corpus}-hf", tmp_path / f"{corpus}-back")
        trireme("merge", "--out", tmp_path / f"{corpus}-merged", run, tmp_path / f"{corpus}-hf")
        expected = evaluate(run, made / "texts/train")
        for other in ("hf", "back", "merged"):
            got = evaluate(tmp_path / f"{corpus}-{other}", made / "texts/train")
            assert got[:2] == expected[:2], other
            assert "as in training" in got[2]
        own = dict(documents="joined", packing="windows") if corpus == "texts" else dict(documents="masked", packing="documents")
        own |= {key: value for key, value in PROTOCOLS[case].items() if key in own}
        assert expected[1] == (SEQUENCE, own["documents"], own["packing"])


def test_an_adapter_and_its_merge(made, tmp_path):
    train(tmp_path / "base", made / "texts/train")
    trireme("export", tmp_path / "base/run", tmp_path / "hf")
    train(tmp_path / "adapter", made / "chat/train", init=str(tmp_path / "hf"), adapter=dict(rank=2))
    trireme("export", tmp_path / "adapter/run", tmp_path / "peft")
    trireme("export", "--merge", tmp_path / "adapter/run", tmp_path / "merged")
    expected = evaluate(tmp_path / "adapter/run", made / "texts/train")
    assert expected[1] == (SEQUENCE, "masked", "documents")
    for folder in (tmp_path / "peft", tmp_path / "merged"):
        got = evaluate(folder, made / "texts/train")
        assert got[1] == expected[1] and math.isclose(got[0], expected[0], rel_tol=1e-6)
    assert json.loads((tmp_path / "peft/adapter_config.json").read_text())["trireme"]["data.packing"] == "documents"


def test_the_order_of_what_says_it(made, tmp_path):
    """Options, then the corpus's mask, then the run, then windows."""
    train(tmp_path / "a", made / "texts/train")
    run = tmp_path / "a/run"
    loss, shape, said = evaluate(run, made / "chat/train")
    assert shape == (SEQUENCE, "masked", "documents") and "since the corpus has a mask" in said
    assert evaluate(run, made / "chat/train", "--documents", "joined", "--packing", "windows", "--sequence", 16)[1:2] == ((16, "joined", "windows"),)
    loss, shape, said = evaluate(run, made / "texts/train")
    assert shape == (SEQUENCE, "joined", "windows") and "in sequences of 24 tokens (documents: joined, packing: windows), as in training" in said
    trireme("export", run, tmp_path / "hf")
    config = json.loads((tmp_path / "hf/config.json").read_text())
    del config["trireme"]
    (tmp_path / "hf/config.json").write_text(json.dumps(config))
    loss, shape, said = evaluate(tmp_path / "hf", made / "texts/train")
    assert shape == (64, "joined", "windows") and "because the settings of training are unknown; change them with --sequence, --documents and --packing" in said
    done = trireme("eval", run, made / "texts/train", "--documents", "auto", status=2)
    assert "--documents" in done.stderr


def test_several_models_have_one_protocol(made, tmp_path):
    train(tmp_path / "a", made / "texts/train")
    train(tmp_path / "b", made / "texts/train", data=dict(sequence=16, documents="masked"))
    read = json.loads(trireme("eval", tmp_path / "a/run", tmp_path / "b/run", made / "texts/train", "--json").stdout)
    assert (read["sequence"], read["documents"], read["packing"]) == (SEQUENCE, "joined", "windows")
    alone = evaluate(tmp_path / "b/run", made / "texts/train", "--sequence", SEQUENCE, "--documents", "joined", "--packing", "windows")[0]
    assert read["models"][1]["loss"] == alone
    said = trireme("eval", tmp_path / "a/run", tmp_path / "b/run", made / "texts/train").stderr
    assert "was trained in sequences of 16 tokens (documents: masked, packing: windows); here it is evaluated like the first" in said


# ---- the type of what is written ---------------------------------------------------------------------------------------

def test_types(made, tmp_path):
    """A run with `init`, an adapter and merges of them keep the base's type; others are fp32. One option by two names."""
    train(tmp_path / "base", made / "texts/train")
    for name, words in (("bf16", ["--precision", "bf16"]), ("fp32", []), ("bf16-too", ["--dtype", "bf16"])):
        done = trireme("export", tmp_path / "base/run", tmp_path / name, *words)
        assert f"{tmp_path / name} is written, in {name[:4]}" in done.stderr
    assert types_of(tmp_path / "bf16") == types_of(tmp_path / "bf16-too") == {"BF16"} and types_of(tmp_path / "fp32") == {"F32"}
    for base, kind in (("bf16", "BF16"), ("fp32", "F32")):
        train(tmp_path / f"{base}-run", made / "texts/train", init=str(tmp_path / base))
        train(tmp_path / f"{base}-lora", made / "texts/train", init=str(tmp_path / base), adapter=dict(rank=2))
        done = trireme("export", tmp_path / f"{base}-run/run", tmp_path / f"{base}-hf")
        assert f"is written, in {base}" in done.stderr and types_of(tmp_path / f"{base}-hf") == {kind}
        trireme("export", "--merge", tmp_path / f"{base}-lora/run", tmp_path / f"{base}-lora-hf")
        assert types_of(tmp_path / f"{base}-lora-hf") == {kind}
        trireme("merge", "--out", tmp_path / f"{base}-merged", tmp_path / f"{base}-run/run", tmp_path / f"{base}-run/run")
        assert types_of(tmp_path / f"{base}-merged") == {kind}
    trireme("export", tmp_path / "bf16-run/run", tmp_path / "wide", "--dtype", "fp32")
    trireme("merge", "--out", tmp_path / "mixed", tmp_path / "bf16-run/run", tmp_path / "fp32-run/run")
    trireme("merge", "--precision", "bf16", "--out", tmp_path / "narrow", tmp_path / "fp32", tmp_path / "fp32")
    assert types_of(tmp_path / "wide") == types_of(tmp_path / "mixed") == {"F32"} and types_of(tmp_path / "narrow") == {"BF16"}
    # What eval finds of it is the run's to the type's rounding.
    assert math.isclose(evaluate(tmp_path / "bf16-run/run", made / "texts/train")[0], evaluate(tmp_path / "bf16-hf", made / "texts/train")[0], rel_tol=1e-2)
    # The base may be gone when the run goes on, and is remembered.
    (tmp_path / "bf16/model.safetensors").rename(tmp_path / "away")
    trireme("export", tmp_path / "bf16-run/run", tmp_path / "later")
    assert types_of(tmp_path / "later") == {"BF16"}


# ---- auto ----------------------------------------------------------------------------------------------------------------

def test_auto_follows_the_mask(made, tmp_path):
    train(tmp_path / "texts", made / "texts/train")
    train(tmp_path / "chat", made / "chat/train")
    train(tmp_path / "said", made / "chat/train", data=dict(documents="joined", packing="windows"))
    train(tmp_path / "half", made / "chat/train", data=dict(packing="windows"))
    assert settled(tmp_path / "texts") == ("joined", "windows", "cut")
    assert settled(tmp_path / "chat") == ("masked", "documents", "truncate")
    assert settled(tmp_path / "said") == ("joined", "windows", "cut")
    assert settled(tmp_path / "half") == ("masked", "windows", "cut")


def test_a_run_that_goes_on_keeps_what_it_had(made, tmp_path):
    """As run files of before these words said nothing and meant windows of joined documents, which config.yaml says."""
    done = train(tmp_path / "a", made / "chat/train", data=dict(documents="joined", packing="windows"))
    config = (tmp_path / "a/run/config.yaml").read_text()
    (tmp_path / "a/run/config.yaml").write_text("".join(line for line in config.splitlines(True) if "too_long" not in line))
    more = dict(optimizer=dict(global_batch=4, steps=3, lr=1e-2))
    train(tmp_path / "a", made / "chat/train", **more)
    assert settled(tmp_path / "a") == ("joined", "windows", "cut")
    train(tmp_path / "b", made / "chat/train", "--resume", tmp_path / "a/run/checkpoints/step-00000002", **more)
    assert settled(tmp_path / "b") == ("joined", "windows", "cut")
    train(tmp_path / "a", made / "chat/train", "--resume", "never", **more)
    assert settled(tmp_path / "a") == ("masked", "documents", "truncate")
    done = train(tmp_path / "a", made / "chat/train", status=3, data=dict(too_long="drop"), optimizer=dict(global_batch=4, steps=4, lr=1e-2))
    assert "data.too_long is truncate there and drop in this run" in done.stderr, done.stderr
    del done


# ---- long samples --------------------------------------------------------------------------------------------------------

def ids_of(prefix):
    return numpy.fromfile(f"{prefix}.bin", numpy.uint16).tolist()


def test_too_long(made, tmp_path):
    """Counted by hand: conversations of 44 letters, question and answer with a letter before each and a dot behind."""
    lengths = [len("U" + "q" * (1 + i % 5) + "A" + "a" * (i % 9 + 1) + ".") for i in range(40)] + [len("Ulong" + "A" + "x" * 40 + ".")] * 2
    assert sum(lengths) == len(ids_of(made / "chat/train")) and max(lengths) == 47
    left = 2 * (47 - SEQUENCE)
    for rule, words in (("truncate", f": {left} tokens are left out"), ("drop", ": 94 tokens are left out"), ("cut", ": 0 tokens are left out")):
        done = train(tmp_path / rule, made / "chat/train", data=dict(too_long=rule))
        assert f"2 of 42 documents are longer than a sequence of 24 tokens (data.too_long: {rule}){words}" in done.stderr, done.stderr
    # What counts in a pass: of a truncated conversation the answer's letters that are in the sequence, behind its first.
    counted = {}
    for rule in ("truncate", "drop", "cut"):
        read = json.loads(trireme("eval", tmp_path / rule / "run", made / "chat/train", "--json").stdout)
        counted[rule] = read["tokens"]
    answers = sum(i % 9 + 2 for i in range(40))
    assert counted == dict(truncate=answers + 2 * (SEQUENCE - len("UlongA")), drop=answers, cut=answers + 2 * 41)
    done = train(tmp_path / "windows", made / "chat/train", status=3, data=dict(packing="windows", too_long="drop"))
    assert "`data.too_long: drop` goes with `data.packing: documents`" in done.stderr
    done = train(tmp_path / "none", made / "chat/train", status=3, data=dict(too_long="drop", sequence=2))
    assert "all 42 documents are longer than data.sequence (2 tokens) and dropped" in done.stderr
    done = train(tmp_path / "word", made / "chat/train", status=3, data=dict(too_long="skip"))
    assert "too_long" in done.stderr


def test_lengths_of_conversations_are_printed(made, tmp_path):
    said = trireme("prepare", "--chat", "--chat-template", made / "t.jinja", "--tokenizer", made / "texts", "--validation", 0, "--out", tmp_path / "chat",
                   made / "chat.jsonl").stderr
    assert "the longest has 47 tokens, and 95 % have 16 or fewer" in said, said


def test_small_parts_are_named(made, tmp_path):
    (tmp_path / "t.txt").write_text("A short text.\n" * 100)
    said = trireme("prepare", "--tokenizer", "bytes", "--validation", 0.1, "--out", tmp_path / "c", tmp_path / "t.txt").stderr
    assert "warning: the validation corpus has 140 tokens" in said, said
    done = train(tmp_path / "a", tmp_path / "c/train", status=3, data=dict(validation=str(tmp_path / "c/validation"), sequence=200), evaluation=dict(every=1),
                 model=MODEL | dict(max_sequence=256))
    assert "validation has 140 tokens, fewer than the 201 of one sample" in done.stderr, done.stderr
