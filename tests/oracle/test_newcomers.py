"""What new users typed, and stumbled over, is typed again: each gets the better answer. One tiny corpus, one tiny chat model, no network."""
import fcntl
import itertools
import json
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import termios
import xml.etree.ElementTree as xml

import pytest
from browser import Browser, needs_chromium
from parity import TRIREME, trireme, yaml_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = dict(family="llama", num_layers=2, hidden_size=16, num_heads=2, ffn_size=32, vocab_size=257, max_sequence=64)
FACTS = [dict(instruction=f"What is {i} plus {j}?", input="" if i % 2 else "Be short.", output=f"It is {i + j}.") for i in range(6) for j in range(5)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Text and conversations as corpora, a model with a tokenizer and a chat template as `export` writes it, and a run file."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "text.txt").write_text("".join(f"The crew rows {i * 7919 % 1000} times, and rests.\n" for i in range(400)))
    trireme("prepare", "--tokenizer", "bytes", "--validation", 0.1, "--documents", "line", "--out", "corpus", "text.txt", cwd=folder)
    run = dict(model=MODEL, data=dict(train="corpus/train", validation="corpus/validation", sequence=32), optimizer=dict(global_batch=4, steps=24, lr=1e-2),
               layout=dict(micro_batch=4), evaluation=dict(every=8, sequences=4), threads=1, device="cpu", output="runs/first")
    (folder / "run.yaml").write_text(yaml_of(run))
    said = trireme("train", "run.yaml", cwd=folder).stderr
    (folder / "said.txt").write_text(said)
    trireme("export", "runs/first", "model", cwd=folder)
    shutil.copy(ROOT / "examples/finetuning/chat_template.jinja", folder / "model/chat_template.jinja")
    (folder / "facts.json").write_text(json.dumps(FACTS))
    trireme("prepare", "--chat", "--tokenizer", "model", "--validation", 0, "--out", "tuning", "facts.json", cwd=folder)
    return folder


def answer(made, *words, status=None):
    """All that a command says; status None: any but 0."""
    done = subprocess.run([TRIREME, *map(str, words)], cwd=made, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    assert (done.returncode != 0) if status is None else done.returncode == status, (words, done.stderr)
    return done.stdout + done.stderr


def refused(made, *settings):
    return answer(made, "train", "run.yaml", "--dry-run", *itertools.chain(*(("--set", word) for word in settings)), status=3)


# ---- models and data ---------------------------------------------------------------------------------------------------

def test_names_of_the_hub(made):
    """A model by its name on the hub: where it was looked for, and what gets it; a preset of that architecture."""
    environment = {**os.environ, "HF_HUB_CACHE": str(made / "empty")}
    for words in (["train", "run.yaml", "--set", "init=Acme/Tiny-1B", "--set", "output=runs/none"], ["import", "Acme/Tiny-1B", "there"],
                  ["prepare", "--tokenizer", "Acme/Tiny-1B", "--out", "there", "text.txt"],
                  ["plan", "--model", "Acme/Tiny-1B", "--cluster", "dgx-h100", "--devices", "8", "--global-batch", "8"]):
        done = subprocess.run([TRIREME, *words], cwd=made, capture_output=True, text=True, env=environment)
        assert done.returncode != 0 and "hf download Acme/Tiny-1B --local-dir models/Tiny-1B, then name models/Tiny-1B" in done.stderr, done.stderr
        assert f"it is not in the cache {made}/empty" in done.stderr
    said = answer(made, "plan", "--model", "meta-llama/Llama-3.1-405B", "--cluster", "dgx-h100", "--devices", 8, "--global-batch", 8)
    assert "its architecture is the preset `llama-3-405b`" in said


def test_data_as_people_have_it(made, tmp_path):
    """Alpaca in an array is read; conversations without --chat, tables of columns and preferences are answered with what to do."""
    said = answer(made, "prepare", "--chat", "--tokenizer", "model", "--validation", 0, "--out", tmp_path / "out", "facts.json", status=0)
    assert "records of the form alpaca" in said and "30 documents" in said
    assert "(form alpaca): did you mean --chat?" in answer(made, "prepare", "--tokenizer", "bytes", "--out", tmp_path / "no", "facts.json")
    (tmp_path / "m.jsonl").write_text(json.dumps(dict(messages=[dict(role="user", content="a"), dict(role="assistant", content="b")])))
    assert "(form messages): did you mean --chat?" in answer(made, "prepare", "--tokenizer", "bytes", "--out", tmp_path / "no", tmp_path / "m.jsonl")
    (tmp_path / "m.jsonl").write_text(json.dumps(dict(prompt="a", chosen="b", rejected="c")))
    assert "`chosen` and `rejected` are preferences" in answer(made, "prepare", "--chat", "--tokenizer", "model", "--out", tmp_path / "no", tmp_path / "m.jsonl")
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    said = answer(made, "prepare", "--tokenizer", "bytes", "--out", tmp_path / "no", tmp_path / "t.parquet")
    assert "convert it to .jsonl: pip install pandas pyarrow; python3 -c" in said and "read_parquet" in said
    (tmp_path / "t.csv").write_text("question,answer\na,b\n")
    assert "t.csv is taken as plain text, with its separators and quotes" in answer(made, "prepare", "--tokenizer", "bytes", "--out", tmp_path / "csv", tmp_path / "t.csv", status=0)


def test_a_file_to_fine_tune_with(made):
    """Complete run files, epochs, and how many a run makes."""
    for name in ("finetune", "finetune-lora", "finetune-qlora"):
        assert (ROOT / f"configs/runs/{name}.yaml").exists()
    said = answer(made, "train", "run.yaml", "--set", "data={train: tuning/train, sequence: 64}", "--set", "optimizer.epochs=1", "--set", "output=runs/epoch", status=0)
    assert re.search(r"^\d steps = [\d.]+ epochs? of \d+ sequences$", said, re.M), said
    assert "did you mean `optimizer.epochs`?" in refused(made, "num_train_epochs=3")


def test_after_a_chat_run(made):
    """The suggested next command is a chat, and samples use the template."""
    said = answer(made, "train", "run.yaml", "--set", "init=model", "--set", "data={train: tuning/train, sequence: 64}", "--set", "optimizer.steps=2",
                  "--set", "samples={chat: [Hello], tokens: 2}", "--set", "evaluation={}", "--set", "output=runs/chat", status=0)
    assert "  trireme generate runs/chat --chat\n" in said and "--prompt" not in said
    sample = json.loads((made / "runs/chat/samples.jsonl").read_text().splitlines()[0])
    assert sample["message"] == "Hello" and sample["prompt"] != "Hello" and "Hello" in sample["prompt"]
    assert "  trireme generate runs/first --prompt 'The'\n" in (made / "said.txt").read_text()


def test_names_of_files_to_export_to(made):
    for name, how in (("out.safetensors", "its model.safetensors is that file"), ("out.bin", "name a folder")):
        said = answer(made, "export", "runs/first", name)
        assert f"{name} is the name of a file, and a Hugging Face folder is written" in said and how in said and not (made / name).exists()


@pytest.mark.parametrize("command, said", dict(
    chat="trireme generate RUN --chat", server="trireme serve RUN", sft="fine-tuning is `trireme train` of a run file", finetune="`init: FOLDER`", pretrain="did you mean `train`?",
    lora="an adapter is the section `adapter:`", dpo="learning from preferences is `trireme train` of a run file with data.preferences", infer="did you mean `generate`?",
    convert="or a GGUF file: trireme export MODEL FILE.gguf", push="hf upload takes the folder", download="hf download NAME").items())
def test_commands_of_other_programs(made, command, said):
    assert said in answer(made, command)


# ---- rates -------------------------------------------------------------------------------------------------------------

def test_a_rate_that_is_too_high(made):
    """The end says so: where the loss rose to the end, and where it blew up in the first steps and came down to less than it began with."""
    common = ["train", "run.yaml", "--set", "optimizer.clip=0", "--set", "optimizer.steps=30", "--resume", "never", "--set"]
    said = answer(made, *common, "output=runs/high", "--set", "optimizer.lr=20", status=0)
    losses = [json.loads(line)["loss"] for line in (made / "runs/high/metrics.jsonl").read_text().splitlines()]
    assert sum(losses[:3]) > sum(losses[-3:]) > 3 * 1.05 * 5.55 and losses[-1] > losses[0], losses  # a tenth beside a tenth would not show it
    assert f"the loss has risen: it was {losses[0]:.4f} in the first step and {sum(losses[-3:]) / 3:.4f} in the last 3 (mean); try a lower optimizer.lr (20)" in said
    assert "trireme generate" not in said
    assert "loss has risen" not in answer(made, *common, "output=runs/low", "--set", "optimizer.lr=1e-6", "--set", "optimizer.decay=constant", status=0)


STUDY = dict(name="rates", run="run.yaml", objective="validation_loss", method="halving", trial=dict(steps=8), space=[dict(name="optimizer.lr", values="1e-4 1e-2 5e-2")])


def write(made, name, **changes):
    (made / name).write_text(json.dumps({**STUDY, **changes}))
    return name


def test_which_rate(made):
    """`tune` over learning rates finds one by the validation loss; the messages about usual first attempts lead there."""
    said = answer(made, "tune", write(made, "rates.yaml"), "--html", "rates.html", status=0)
    assert re.search(r"to use it: trireme train run.yaml --set optimizer.lr=\S+e-2\n", said) and "its weights: rates.db.trials/trial-" in said
    assert "did you mean `validation_loss`?" in answer(made, "tune", write(made, "loss.yaml", objective="loss"))
    assert "did you mean `optimizer.lr`?" in answer(made, "tune", write(made, "lr.yaml", space=[dict(name="lr", values="1e-3 1e-2")]))
    said = answer(made, "tune", write(made, "speed.yaml", objective="tokens_per_s", method="grid"))
    assert "`optimizer.lr` at line 1 of speed.yaml does not change the speed" in said and "validation_loss" in said
    shipped = (ROOT / "configs/studies/learning-rate.yaml").read_text()
    assert "method: halving" in shipped and "objective: validation_loss" in shipped


# ---- words -------------------------------------------------------------------------------------------------------------

def read_of(terminal):
    """b"" at the end, which a terminal says by an error."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def test_help(made):
    for words in (["help", "lr"], ["help", "optimizer.lr"]):
        assert answer(made, *words, status=0).startswith("optimizer.lr (run file)\n") and "highest learning rate" in answer(made, *words, status=0)
    said = answer(made, "help", "optimizer", status=0)
    assert "optimizer.lr (run file)" in said and "optimizer.warmup (run file)" in said
    assert "did you mean `optimizer.warmup`?" in answer(made, "help", "warmupp")
    for word, there in (("fp8", "use precision: bf16"), ("server", "trireme serve RUN"), ("wandb", "follow_metrics.py --wandb"), ("use_dora", "adapter.magnitude: true"), ("gguf", "llama.cpp")):
        assert there in answer(made, "help", word), word
    terminal, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 90, 0, 0))
    with subprocess.Popen([TRIREME, "help", "run"], stdout=there, stderr=there, stdin=subprocess.DEVNULL) as process:
        os.close(there)
        printed = b"".join(iter(lambda: read_of(terminal), b"")).decode().splitlines()
        assert process.wait() == 0
    os.close(terminal)
    assert len(printed) > 200 and all(len(line) <= 90 or " " not in line.strip() for line in printed), printed
    assert answer(made, "version", status=0) == answer(made, "-v", status=0) == answer(made, "--version", status=0)
    write(made, "studies.yaml")
    assert "cannot open runn.yaml: No such file or directory; did you mean run.yaml?" in answer(made, "train", "runn.yaml")
    assert "cannot open studys.yaml: No such file or directory; did you mean studies.yaml?" in answer(made, "tune", "studys.yaml")
    assert answer(made, "eval", "runs/first", "corpus/trian").endswith("; did you mean corpus/train?\n")
    assert answer(made, "eval", "runs/frist", "corpus/train").endswith("; did you mean runs/first?\n")
    assert "`init` names no folder: modle (relative to the current directory); did you mean model?" in refused(made, "init=modle", "model=")
    assert answer(made, "inspect", "runn.yaml").endswith("; did you mean run.yaml?\n")


@pytest.mark.parametrize("setting, said", [
    ("precision=fp16", "must be one of fp32, bf16, fp64, not `fp16`; did you mean `bf16`?"), ("fp16=true", "use precision: bf16"), ("bf16=true", "it is precision: bf16"),
    ("neftune_noise_alpha=5", "(NEFTune) is not supported"), ("report_to=wandb", "examples/follow_metrics.py --wandb passes them on"), ("wandb.project=x", "examples/follow_metrics.py --wandb"),
    ("optimizer.name=adamw_8bit", "it is optimizer.name: adamw with optimizer.state: int8"), ("optimizer.name=adamw8bit", "with optimizer.state: int8"),
    ("optimizer.name=paged_adamw_8bit", "with optimizer.state: int8"), ("optimizer.name=lion_8bit", "it is optimizer.name: lion with optimizer.state: int8"),
    ("block_size=64", "did you mean `data.sequence`?"), ("neftune_noise_alpha=5", "the nearest is adapter.dropout of LoRA"), ("lora_target_linear=true", "it is adapter.targets: all-linear"),
    ("max_seq_length=512", "did you mean `data.sequence`?"), ("packing=true", "did you mean `data.packing`?"), ("loss=dpo", "the loss is objective.name: cross_entropy of the next token"),
])
def test_keys_of_other_programs(made, setting, said):
    assert said in refused(made, setting)


@pytest.mark.parametrize("words, said", [
    ("prepare --dataset x", "files are named without an option: trireme prepare"), ("prepare --data x", "files are named without an option"),
    ("prepare --vocab-size 2048", "a tokenizer of 2048 tokens is trained by --tokenizer train:2048"), ("prepare --vocab_size=2048", "--tokenizer train:2048"),
    ("prepare --val_set_size 0.1", "did you mean `--validation`?"), ("prepare --split 0.1", "did you mean `--validation`?"),
    ("prepare --tokenizer modle --out none text.txt", "there is no such file; did you mean model?"),
    ("new x --model gpt2-124m --data corpus/train --qlora", "new: --qlora is for the folder of a trained model, but gpt2-124m has no weights"),
    ("train run.yaml --resume latest", "--resume takes auto (the newest good checkpoint), never or a folder, not `latest`"),
    ("train --config run.yaml", "the run file is the first argument: trireme train run.yaml"), ("tune --config run.yaml", "the study is the first argument"),
    ("generate --model runs/first", "the folder of a run or model is the first argument: trireme generate RUN"),
    ("generate runs/first once upon", "one run or model at a time, not `once` too; a text to continue is given by --prompt, in quotes"),
    ("eval runs/first facts.json", "prepare it first (conversations: prepare --chat)"),
    ("eval runs/first text.txt", "text.txt is a file, not a corpus; `trireme prepare` makes a corpus of text, with --chat of conversations"),
    ("train run.yaml --set output=runs/none --set data.train=facts.json", "facts.json is a file, not a corpus; `trireme prepare` makes a corpus"),
    ("train corpus/train", "corpus/train is a corpus, not a run file; a run file names it as `train: corpus/train` under `data:`"),
    ("train model", "model is a folder, not a run file; a run file names the model to begin with as `init: model`"),
    ("train runs/first", "runs/first is the folder of a run; its run file is runs/first/config.yaml"),
    ("train text.txt", "text.txt contains records or text, so it is not a run file; make a corpus of it with `trireme prepare`"),
    ("tune run.yaml", "run.yaml is a run file, not a study; a study names it as `run: run.yaml`"),
    ("train study.yaml", "study.yaml is a study, not a run file: trireme tune study.yaml"),
    ("train run.yaml --layout-from rates.db", "rates.db is a study of optimizers or rates, and all its trials have the same layout"),
    ("train run.yaml --set optimizer.global_batch=16 --set layout.micro_batch=16 -n 2 --dry-run", "x layout.data 2 = 32; try 32 or 64, or layout.micro_batch 8"),
    ("plan --model gpt2-124m --global-batch 8 --devices 8 --cluster gpu.yaml", "must be one of accelerator, cpu, not `gpu`; did you mean `accelerator`?"),
    ("plan --model gpt2-124m --global-batch 8 --devices 8 --cluster link.yaml", "`link` is not a key of a cluster file at line 25 of link.yaml; did you mean `links`?"),
    ("plan --model gpt2-124m --global-batch 8 --devices 8 --cluster v100", "there is no cluster `v100`; they are a100-40, "),
])  # fmt: skip
def test_hints(made, words, said):
    """One row for each hint that once led elsewhere."""
    files = {"gpu.yaml": ("device: accelerator", "device: gpu"), "link.yaml": ("links:", "link:")}
    for name, (old, new) in files.items():
        (made / name).write_text((ROOT / "configs/clusters/a100-40.yaml").read_text().replace(f"\n{old}", f"\n{new}"))
    (made / "study.yaml").write_text(yaml_of(dict(name="rates", run="run.yaml", objective="validation_loss", devices=1, trials=1,
                                                  trial=dict(steps=2), space=[dict(name="optimizer.lr", values=[1e-3])])))
    if "rates.db" in words:
        answer(made, "tune", "study.yaml", "--store", "rates.db", status=0)
    assert said in answer(made, *words.split())


def test_a_gguf_file_to_begin_with(made):
    """A file in the place of init's folder is called what it is, not a misspelt name."""
    (made / "some.gguf").write_bytes(b"GGUF" + bytes(64))
    for settings in ([], ["--set", "model="]):
        said = answer(made, "train", "run.yaml", "--set", "init=some.gguf", "--set", "output=runs/none", *settings)
        assert "some.gguf is a GGUF file" in said and "did you mean" not in said


def test_numbers_and_lists(made):
    """1e1 is a number of steps, and a list may be words with commas."""
    said = answer(made, "train", "run.yaml", "--set", "init=model", "--set", "optimizer.steps=1e0", "--set", "adapter.rank=2", "--set", "adapter.targets=q_proj,v_proj",
                  "--set", "output=runs/adapter", status=0)
    assert "1 step in " in said and {"step": 1}.items() <= json.loads((made / "runs/adapter/metrics.jsonl").read_text()).items()
    config = (made / "runs/adapter/config.yaml").read_text()
    assert re.search(r"- \{name: q_proj\}\n +- \{name: v_proj\}\n", config), config


def test_options_of_plan(made):
    """There is no option for a deadline: days follow from --tokens. The help shows ranges of devices next to --devices."""
    words = ["plan", "--model", "gpt2-124m", "--cluster", "dgx-h100", "--global-batch", 64, "--devices"]
    assert "--days needs --tokens, the length of the run, for example --tokens 300B" in answer(made, *words, 8, "--days", 30)
    assert "--devices takes a whole number, a range such as 512..2048 or 512..2048:256, or a list such as 64,128,512, not `64-512`" in answer(made, *words, "64-512")
    help = answer(made, "plan", "--help", status=0)
    assert "also print days" in help and help.index("\n  --devices A..B") < help.index("\n  --global-batch B")


def test_comments_of_run_files():
    for path in (ROOT / "configs/runs").glob("*.yaml"):
        text = path.read_text()
        assert "train --help` lists" not in text, path
        for line in re.findall(r"^device:.*#(.*)$", text, re.M):
            assert "gpu" in line, path
    assert "`trireme help run` lists every key" in (ROOT / "configs/runs/gpt2-124m.yaml").read_text()


ONE = re.compile(r"(?<![\d.,])1 (devices|threads|steps|ranks|documents|micro-batches|layers|heads|tokens|trials|nodes|sequences|checkpoints|files|epochs|evaluations)\b(?!/)")  # 3.1 tokens/s is right


def test_one_of_each(made, tmp_path):
    """1 is followed by a singular, and rates are in FLOP/s with a space."""
    (tmp_path / "one.txt").write_text("a line\n")
    (tmp_path / "one.yaml").write_text(yaml_of(dict(MODEL, num_layers=1, num_heads=1)))
    small = ["--set", f"model={tmp_path}/one.yaml", "--set", "optimizer.steps=1", "--set", "optimizer.global_batch=1", "--set", "layout.micro_batch=1",
             "--set", "evaluation={every: 1, batches: 1}"]
    plan = ["--model", tmp_path / "one.yaml", "--cluster", "dgx-h100", "--devices", 1, "--global-batch", 1]
    said = []
    for words in (["prepare", "--tokenizer", "bytes", "--threads", 1, "--out", tmp_path / "c", tmp_path / "one.txt"],
                  ["prepare", "--tokenizer", "bytes", "--threads", 1, "--validation", 0, "--out", tmp_path / "d", tmp_path / "one.txt"],
                  ["train", "run.yaml", *small, "--set", f"output={tmp_path}/run", "--dry-run"], ["train", "run.yaml", *small, "--set", f"output={tmp_path}/run"],
                  ["train", "run.yaml", *small, "--set", f"output={tmp_path}/run"],
                  ["train", "run.yaml", *small, "--set", "optimizer.steps=2", "--stop-at", 1, "--set", f"output={tmp_path}/stopped"],
                  ["train", "run.yaml", *small, "--set", "optimizer.steps=9", "--stop-at", 10, "--set", "evaluation={every: 1, stop_after: 1}", "--set", "optimizer.lr=20",
                   "--set", f"output={tmp_path}/early"],
                  ["train", "run.yaml", *small[4:], "--set", f"data={{train: {tmp_path}/d/train, sequence: 3}}", "--set", "optimizer.epochs=1", "--set", f"output={tmp_path}/epoch"],
                  ["inspect", tmp_path / "c/train"], ["inspect", tmp_path / "one.yaml"], ["inspect", tmp_path / "run"], ["generate", tmp_path / "run", "--prompt", "a", "--tokens", 1],
                  ["compare", tmp_path / "run"], ["plan", *plan], ["simulate", *plan, "--layout", "data=1"], ["doctor", "--quick"],
                  ["tune", write(made, "one.yaml", method="exhaustive", space=[dict(name="optimizer.lr", values="1e-3")])]):
        done = subprocess.run([TRIREME, *map(str, words)], cwd=made, capture_output=True, text=True, errors="replace", env={**os.environ, "OMP_NUM_THREADS": "1"})
        assert done.returncode == 0 or words[0] == "doctor", (words, done.stderr)
        found = ONE.search(done.stdout + done.stderr)
        assert found is None, (words, found[0], done.stdout + done.stderr)
        said.append(done.stdout + done.stderr)
    said = "\n".join(said)
    assert re.search(r"peak [\d.]+ [GT]FLOP/s measured", said) and not re.search(r"\d[BT]FLOP", said)


# ---- pictures ----------------------------------------------------------------------------------------------------------

def test_timeline(made):
    """The picture says which steps are drawn and what the numbers in its bars are."""
    trireme("train", "run.yaml", "--set", "layout={pipeline: 2, micro_batch: 1}", "--set", "output=runs/two", "--timeline", "two", "-n", 2, cwd=made)
    words = " ".join(text.text or "" for text in xml.parse(made / "two.svg").iter("{http://www.w3.org/2000/svg}text"))
    assert "steps 3 to 10 on 2 ranks" in words
    assert re.search(r"drawn: steps (\d+) to 10, the last of these 8; a number in a bar is its micro-batch, counted from 0", words), words


@needs_chromium
def test_pages_use_the_width_of_the_window(made, tmp_path):
    """No table of a comparison or of a study scrolls sideways on 1,200 pixels, whatever runs are called; on 400 pixels the page itself does not, and
    no text of a chart leaves it."""
    long = "runs/a-name-that-is-rather-long-lr-0.001-batch-8"
    shutil.copytree(made / "runs/first", made / long)
    trireme("compare", "runs/first", long, "--html", "compare.html", cwd=made)
    values = dict(values="1e-3 1e-2")
    answer(made, "tune", write(made, "pair.yaml", space=[dict(name="optimizer.lr", **values), dict(name="optimizer.weight_decay", values="0 0.1")]), "--html", "pair.html", status=0)
    trireme("train", "run.yaml", "--set", "layout={pipeline: 2, micro_batch: 1}", "--set", "output=runs/drawn", "--timeline", "drawn", "-n", 2, cwd=made)
    inside = """[...document.querySelectorAll('svg')].every(svg => [...svg.querySelectorAll('text')].every(text => {
      const a = svg.getBoundingClientRect(), b = text.getBoundingClientRect(); return b.left >= a.left - 1 && b.right <= a.right + 1; }))"""
    with Browser(tmp_path) as browser:
        for width in (1200, 400):
            browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width == 400)
            for page in ("compare.html", "pair.html"):
                browser.open((made / page).as_uri())
                assert browser.value("document.documentElement.scrollWidth <= innerWidth"), (page, width)
                assert browser.value(inside), (page, width)
                assert width == 400 or browser.value("[...document.querySelectorAll('.wide')].every(at => at.scrollWidth <= at.clientWidth)"), page
        browser.call("Emulation.setDeviceMetricsOverride", width=1200, height=900, deviceScaleFactor=1, mobile=False)
        browser.open((made / "drawn.svg").as_uri())
        assert browser.value("document.documentElement.getBoundingClientRect().width <= 1200")
