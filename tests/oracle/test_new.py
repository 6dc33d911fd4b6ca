"""`trireme new`: the file that it writes runs as it is, and its micro-batch is what the memory plan fits into this machine."""
import json
import pathlib
import re

import pytest
from parity import trireme, yaml_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = dict(family="llama", num_layers=2, hidden_size=16, num_heads=2, ffn_size=32, vocab_size=257, max_sequence=64)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    (folder / "text.txt").write_text("".join(f"Oars {i} of {i * 7919 % 1000}.\n" for i in range(400)))
    trireme("prepare", "--tokenizer", "bytes", "--validation", 0.2, "--documents", "line", "--out", folder / "corpus", folder / "text.txt")
    (folder / "tiny.yaml").write_text(yaml_of(TINY))
    (folder / "run.yaml").write_text(yaml_of(dict(model=TINY, data=dict(train=str(folder / "corpus/train")), optimizer=dict(global_batch=2, steps=1, lr=1e-3),
                                                  output=str(folder / "base"))))
    trireme("train", folder / "run.yaml")
    trireme("export", folder / "base", folder / "model")
    (folder / "chat.jinja").write_text((ROOT / "examples/finetuning/chat_template.jinja").read_text())
    trireme("prepare", "--chat", "--chat-template", folder / "chat.jinja", "--tokenizer", folder / "model", "--validation", 0.1, "--out", folder / "tuning",
            ROOT / "examples/finetuning/facts.jsonl")
    record = lambda i: dict(prompt=f"What is {i}?", chosen=f" It is {i}.", rejected=f" Oar {i * 7 % 10}")
    (folder / "pairs.jsonl").write_text("".join(json.dumps(record(i)) + "\n" for i in range(40)))
    (folder / "labels.jsonl").write_text("".join(json.dumps(dict(prompt=f"Is {i} odd?", completion=" Yes" if i % 2 else " No", label=i % 3 > 0)) + "\n" for i in range(40)))
    trireme("prepare", "--preferences", "--tokenizer", folder / "model", "--validation", 0.2, "--out", folder / "pairs", folder / "pairs.jsonl")
    return folder


@pytest.mark.parametrize("words, data, there", [
    (["--model", "tiny.yaml"], "corpus", ["model: tiny.yaml\n", "epochs: 1 ", "\noutput: runs/first\n"]),
    (["--model", "model"], "tuning", ["init: model\n", "epochs: 3 ", "lr: 1e-05 ", "weight_decay: 0.0\n", "# samples: {chat:"]),
    (["--model", "model", "--lora"], "tuning", ["init: model\n", "adapter:\n  rank: 16 ", "lr: 0.0002 "]),
])
def test_the_file_runs_as_it_is(made, tmp_path, words, data, there):
    for name in ("tiny.yaml", "model", "corpus", "tuning"):
        (tmp_path / name).symlink_to(made / name)
    said = trireme("new", "first", *words, "--data", f"{data}/train", cwd=tmp_path).stderr
    assert "first.yaml is written; check it, and then run: trireme train first.yaml" in said
    text = (tmp_path / "first.yaml").read_text()
    assert "  min_lr_ratio: 0.1 " in text and all(part in text for part in [*there, f"  train: {data}/train\n", f"  validation: {data}/validation\n", "  sequence: 64 "]), text
    assert re.search(r"# Made by `trireme new` for this machine: \d+ cores, [\d.]+ \S+ of memory", text)
    trireme("train", "first.yaml", "--dry-run", cwd=tmp_path)
    trireme("train", "first.yaml", "--set", "optimizer.steps=2", "--set", "device=cpu", cwd=tmp_path)
    assert len((tmp_path / "runs/first/metrics.jsonl").read_text().splitlines()) == 2
    again = trireme("new", "first", *words, "--data", f"{data}/train", cwd=tmp_path, status=2).stderr
    assert "first.yaml exists already; choose another name, or remove it" in again and (tmp_path / "first.yaml").read_text() == text


@pytest.mark.parametrize("words, data, there", [
    (["--lora"], "pairs/train", ["objective: dpo ", "  preferences: pairs/train\n  validation_preferences: pairs/validation\n", "adapter:\n  rank: 16 ", "lr: 2e-05 "]),
    ([], "pairs/train", ["objective: dpo ", "lr: 2e-06 ", "epochs: 1 "]),
    (["--qlora"], "pairs.jsonl", ["objective: dpo ", "  preferences: pairs.jsonl\n  sequence:", "  quantise: nf4 "]),
    (["--objective", "simpo"], "pairs.jsonl", ["objective: simpo "]),
    ([], "labels.jsonl", ["objective: kto "]),
])
def test_preferences(made, tmp_path, words, data, there):
    for name in ("model", "pairs", "pairs.jsonl", "labels.jsonl"):
        (tmp_path / name).symlink_to(made / name)
    trireme("new", "first", "--model", "model", "--data", data, *words, cwd=tmp_path)
    text = (tmp_path / "first.yaml").read_text()
    assert all(part in text for part in there) and "  train:" not in text and "samples" not in text, text
    trireme("train", "first.yaml", "--set", "optimizer.steps=2", "--set", "device=cpu", cwd=tmp_path)
    assert len((tmp_path / "runs/first/metrics.jsonl").read_text().splitlines()) == 2


def test_vocabulary_of_the_corpus(made, tmp_path):
    """A preset with a larger vocabulary gets the corpus's; one with the same or a smaller vocabulary stays a name."""
    trireme("new", tmp_path / "a.yaml", "--model", "llama-demo", "--data", made / "corpus/train")
    text = (tmp_path / "a.yaml").read_text()
    assert "# llama-demo with the vocabulary of the corpus; its own has 4096 tokens\n  family: llama\n" in text and "  vocab_size: 257\n" in text
    said = trireme("train", tmp_path / "a.yaml", "--set", "optimizer.steps=1", "--set", f"output={tmp_path / 'run'}", "--set", "optimizer.global_batch=1", "--set",
                   "layout.micro_batch=1").stderr
    config = json.loads(next((tmp_path / "run/checkpoints").glob("step-*")).joinpath("config.json").read_text())
    assert config["vocab_size"] == 257 and config["num_hidden_layers"] == 6 and config["tie_word_embeddings"] and "never occur" not in said


def test_names_with_blanks(made, tmp_path):
    (tmp_path / "my data: one").symlink_to(made / "corpus")
    said = trireme("new", "my run", "--model", made / "tiny.yaml", "--data", "my data: one/train", cwd=tmp_path).stderr
    assert "and then run: trireme train 'my run.yaml'\n" in said
    text = (tmp_path / "my run.yaml").read_text()
    assert 'train: "my data: one/train"\n' in text and 'output: "runs/my run"\n' in text
    trireme("train", "my run.yaml", "--dry-run", cwd=tmp_path)


@pytest.mark.parametrize("layers", [24, 96])
def test_the_micro_batch_is_the_largest_that_fits(made, tmp_path, layers):
    """Twice the micro-batch does not fit into nine tenths of the memory, or would be more than the batch."""
    model = dict(family="llama", num_layers=layers, hidden_size=512, num_heads=8, ffn_size=2048, vocab_size=257, max_sequence=1024)
    (tmp_path / "model.yaml").write_text(yaml_of(model))
    trireme("new", tmp_path / "a.yaml", "--model", tmp_path / "model.yaml", "--data", made / "corpus/train")
    text = (tmp_path / "a.yaml").read_text()
    batch = int(re.search(r"micro_batch: (\d+)", text)[1])
    head = re.search(r"cores, ([\d.]+) (\S+) of memory. One rank takes ([\d.]+) (\S+)\.", text)
    units = dict(MiB=2**20, GiB=2**30, TiB=2**40)
    room, need = float(head[1]) * units[head[2]], float(head[3]) * units[head[4]]

    def planned(micro_batch):
        printed = trireme("train", tmp_path / "a.yaml", "--dry-run", "--verbose", "--set", f"layout.micro_batch={micro_batch}").stdout
        return int(re.search(r"^  all +(\d+) bytes", printed, re.M)[1])

    assert planned(batch) == pytest.approx(need, rel=0.01) and need <= 0.91 * room
    assert batch == 16 or planned(2 * batch) > 0.89 * room


@pytest.mark.parametrize("words, status, message", [
    ([], 2, "new: name one run, whose file is NAME.yaml"),
    (["a"], 2, "new: --model is missing, for example --model gpt2-124m or --model Qwen/Qwen3-0.6B"),
    (["a", "--model", "gpt2-demo"], 2, "new: --data is missing: the prefix of a corpus that `trireme prepare` made"),
    (["a", "--model", "gpt2-demo", "--data", "nothing/train"], 4, "cannot open nothing/train.idx"),
    (["a", "--model", "gpt3-demo", "--data", "corpus/train"], 3, "`gpt3-demo` is not a model preset; did you mean `gpt2-demo`?"),
    (["a", "--model", "gpt2-demo", "--data", "corpus/train", "--lora"], 2, "new: --lora is for the folder of a trained model, but gpt2-demo has no weights"),
    (["a", "--model", "frontier-1t", "--data", "corpus/train"], 6, "frontier-1t does not fit: a rank takes"),
    (["a", "--model", "gpt2-demo", "--data", "pairs.jsonl"], 2, "new: pairs.jsonl has preferences, from which a trained model learns; --model gpt2-demo has no weights"),
    (["a", "--model", "model", "--data", "chat.jsonl"], 2, "new: the first record of chat.jsonl is not a preference (`chosen` and `rejected`, or `completion` and `label`)"),
    (["a", "--model", "model", "--data", "none.jsonl"], 4, "none.jsonl"),
    (["a", "--model", "model", "--data", "corpus/train", "--objective", "dpo"], 2, "new: --objective dpo is for preferences, and corpus/train has none"),
    (["a", "--model", "model", "--data", "pairs.jsonl", "--objective", "dppo"], 3, "did you mean `dpo`?"),
    (["a", "--model", "model", "--data", "pairs.jsonl", "--objective", "grpo"], 2, "new: --objective grpo does not learn from preferences, which pairs.jsonl has"),
    (["a", "b", "--model", "gpt2-demo", "--data", "corpus/train"], 2, "new: name one run"),
    (["..", "--model", "gpt2-demo", "--data", "corpus/train"], 2, "new: `..` is not a name; name a run"),
    (["", "--model", "gpt2-demo", "--data", "corpus/train"], 2, "new: `` is not a name; name a run"),
    (["a: b", "--model", "gpt2-demo", "--data", "corpus/train"], 2, "new: the name of a run has no quotes, no `:`, `#`, `$` or backslashes, as `a: b` has"),
    (["nowhere/a", "--model", "gpt2-demo", "--data", "corpus/train"], 2, "there is no folder nowhere for the run file"),
])
def test_refused(made, tmp_path, words, status, message):
    for name in ("corpus", "pairs.jsonl", "model"):
        (tmp_path / name).symlink_to(made / name)
    (tmp_path / "chat.jsonl").symlink_to(ROOT / "examples/finetuning/facts.jsonl")
    assert message in trireme("new", *words, cwd=tmp_path, status=status).stderr
    assert not (tmp_path / "a.yaml").exists()
