"""Options that are misspelt, of every command: the nearest is named, or what there is; and advice with numbers in it, which is tried."""
import os
import pathlib
import re
import subprocess

import pytest
from parity import TRIREME, trireme, words_of, yaml_of

MODEL = dict(family="gpt2", num_layers=2, hidden_size=32, num_heads=2, vocab_size=257, max_sequence=64)

ROOT = pathlib.Path(__file__).resolve().parents[2]


def commands():
    """{name: its long options}, as --help says them."""
    listed = re.findall(r"^  ([a-z]+) ", trireme("--help").stdout, re.M)
    return {name: sorted(set(re.findall(r"(?<![a-z-])--([a-z][a-z-]+)", trireme(name, "--help").stdout))) for name in listed}


def test_misspelt_options():
    """A misspelt option of any command gives a suggestion of that option; so does an option with one dash."""
    checked = 0
    for name, options in commands().items():
        for option in options:
            wrong = f"--{option[:-1]}q{option[-1]}"
            done = subprocess.run([TRIREME, name, wrong], capture_output=True, text=True, stdin=subprocess.DEVNULL)
            if f"{wrong} is not an option" not in done.stderr and f"`{wrong}` is not an option" not in done.stderr:
                continue  # an option of another command that is in this one's help
            assert done.returncode == 2
            meant = re.search(r"did you mean `?(--[a-z-]+)", done.stderr)
            checked += meant is not None and meant[1] == f"--{option}"
    assert checked > 120, checked
    for words, said in (
        (["generate", "x", "--top-kk", "5"], "--top-kk is not an option; did you mean --top-k?"),
        (["generate", "x", "--temprature=0"], "did you mean --temperature?"),
        (["generate", "--hlep"], "did you mean --help?"),
        (["prepare", "--hepl"], "did you mean `--help`?"),
        (["--hepl"], "`--hepl` is not an option; did you mean `--help`?"),
        (["--vresion"], "`--vresion` is not an option; did you mean `--version`?"),
        (["generate", "x", "-top-k", "5"], "-top-k is not an option; did you mean --top-k?"),
        (["generate", "x", "-z"], "-z is not an option; see trireme generate --help"),
        (["generate", "x", "--to", "5"], "--to can be --tokens, --top-k, --top-p, --tokenizer"),
        (["generate", "x", "--chat=3"], "--chat takes no value"),
        (["generate", "x", "--tokens"], "--tokens needs a value"),
        (["generate", "x", "--precision", "bf61"], "--precision is fp32, bf16 or fp64, not `bf61`; did you mean `bf16`?"),
        (["merge", "x", "y", "--out", "z", "--method", "slurp"], "--method is linear, task_arithmetic, slerp or ties, not `slurp`; did you mean `slerp`?"),
        (["compare", "x", "--by", "tokns"], "--by is step, tokens or time, not `tokns`; did you mean `tokens`?"),
        (["tune", "x", "--method", "grod"], "did you mean `grid`?"),
        (["doctor", "--quik"], "did you mean --quick?"),
        (["eval", "x", "y", "--precison", "fp32"], "did you mean --precision?"),
    ):
        done = subprocess.run([TRIREME, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 2 and said in done.stderr, (words, done.stderr)


def test_help():
    """`help COMMAND` prints its --help, and `help KIND` the keys of that kind of file."""
    for name in commands():
        assert trireme("help", name).stdout == trireme(name, "--help").stdout, name
    assert trireme("help", "run").stdout == trireme("train", "--keys").stdout
    for kind, key in dict(run="optimizer.lr", study="devices", model="hidden_size", cluster="memory_bytes", system="flash_attention").items():
        assert re.search(rf"^  {re.escape(key)} ", trireme("help", kind).stdout, re.M), kind


# Names in transformers (its configs and TrainingArguments), PEFT, Megatron-LM, DeepSpeed, torchtitan and nanoGPT, and our key with that meaning.
OTHER_NAMES = {
    "model": dict(num_hidden_layers="num_layers", n_layer="num_layers", n_embd="hidden_size", d_model="hidden_size", dim="hidden_size",
                  num_attention_heads="num_heads", n_head="num_heads", num_key_value_heads="num_kv_heads", num_query_groups="num_kv_heads",
                  intermediate_size="ffn_size", ffn_hidden_size="ffn_size", n_inner="ffn_size", max_position_embeddings="max_sequence",
                  block_size="max_sequence", n_ctx="max_sequence", tie_word_embeddings="tied", rms_norm_eps="norm_eps", layer_norm_epsilon="norm_eps",
                  rotary_base="rope_theta", partial_rotary_factor="rotary_fraction", sliding_window="window", hidden_act="activation",
                  num_local_experts="num_experts", num_experts_per_tok="experts_per_token", moe_intermediate_size="expert_ffn_size",
                  initializer_range="init_std", final_logit_softcapping="logit_soft_cap"),
    "data": dict(seq_length="sequence", seq_len="sequence", block_size="sequence", data_path="train", val="validation"),
    "layout": dict(tp="tensor", tensor_model_parallel_size="tensor", pipeline_parallel_degree="pipeline", context_parallel_size="context", dp="data",
                   expert_model_parallel_size="expert", micro_batch_size="micro_batch", per_device_train_batch_size="micro_batch", zero_stage="zero",
                   gradient_checkpointing="recompute", recompute_granularity="recompute", virtual_pipeline_model_parallel_size="virtual_stages"),
    "optimizer": dict(learning_rate="lr", max_steps="steps", train_iters="steps", max_iters="steps", global_batch_size="global_batch",
                      batch_size="global_batch", gradient_accumulation_steps="global_batch", warmup_steps="warmup", lr_warmup_iters="warmup",
                      lr_scheduler_type="decay", lr_decay_style="decay", max_grad_norm="clip", grad_clip="clip", clip_grad="clip", adam_epsilon="eps",
                      beta2="betas", optim="name", type="name"),
    "evaluation": dict(eval_interval="every", interval="every", eval_steps="every", eval_iters="batches", eval_samples="sequences", early_stopping_patience="stop_after"),
    "checkpoint": dict(save_interval="every", interval="every", save_steps="every", save_total_limit="keep", load_best_model_at_end="best"),
    "adapter": dict(r="rank", lora_alpha="alpha", lora_dropout="dropout", target_modules="targets"),
    "": dict(dtype="precision", output_dir="output", out_dir="output", lora="adapter", learning_rate="optimizer.lr", batch_size="optimizer.global_batch",
             eval_interval="evaluation.every", save_steps="checkpoint.every", max_steps="optimizer.steps", tp="layout.tensor"),
}


def test_names_of_other_programs(tmp_path):
    """In a run file, by --set, and as an option of train: the key that says the same is named."""
    run = dict(model=MODEL, data=dict(train="none", sequence=16), layout=dict(micro_batch=1), optimizer=dict(global_batch=1, steps=4, lr=1e-3), output="none")
    path = tmp_path / "run.yaml"
    path.write_text(yaml_of(run))
    for section, names in OTHER_NAMES.items():
        for theirs, ours in names.items():
            full = f"{section}.{ours}" if section else ours
            said = trireme("train", path, "--set", f"{section}.{theirs}=1" if section else f"{theirs}=1", status=3).stderr
            assert f"did you mean `{full}`?" in said, (theirs, said)
            written = {**run, **({section: {**run.get(section, {}), theirs: 1}} if section else {theirs: 1})}
            (tmp_path / "theirs.yaml").write_text(yaml_of(written))
            said = trireme("train", tmp_path / "theirs.yaml", status=3).stderr
            place, _, key = full.rpartition(".")
            assert f"did you mean `{key}`" + (f" under `{place}:`?" if place != section else "?") in said, (theirs, said)
    for theirs, ours in OTHER_NAMES["model"].items():
        (tmp_path / "model.yaml").write_text(yaml_of({**MODEL, theirs: 1}))
        assert f"is not a key of a model file at line 1 of {tmp_path}/model.yaml; did you mean `{ours}`?" in trireme("inspect", tmp_path / "model.yaml", status=3).stderr
    said = trireme("train", path, "--learning-rate", "1", status=2).stderr
    assert "--learning-rate is not an option; did you mean --set optimizer.lr=VALUE? See trireme train --help" in said
    for words, meant in (
        (["train", path, "--optimizer.lr=1"], "--set optimizer.lr=VALUE?"), (["train", path, "--batch-size", "8"], "--set optimizer.global_batch=VALUE?"),
        (["train", path, "lr=1e-3"], "--set optimizer.lr=1e-3?"),
        (["train", path, "--num-gpus", "2"], "--ranks?"), (["simulate", "--tp", "2"], "--layout tensor=VALUE?"), (["plan", "--gpus", "2"], "--devices?"),
        (["generate", "x", "--max-new-tokens", "2"], "--tokens?"), (["generate", "x", "-p", "y"], "--prompt?"), (["prepare", "x", "-o", "y"], "`--out`?"),
        (["merge", "x", "y", "-o", "z"], "--out?"), (["evaluate"], "`eval`?"),
    ):  # fmt: skip
        assert f"did you mean {meant}" in trireme(*words, status=2).stderr, words
    for word, meant in (("precision=bfloat16", "bf16"), ("precision=float32", "fp32"), ("device=cuda:0", "gpu"), ("layout.schedule=zb", "zero-bubble"),
                        ("layout.recompute=true", "full"), ("model.activation=gelu", "gelu_erf"), ("optimizer.decay=cos", "cosine"), ("model=gpt2", "gpt2-124m")):  # fmt: skip
        assert f"did you mean `{meant}`?" in trireme("train", path, "--set", word, status=3).stderr, word


def test_no_other_name_is_stale():
    """What config/name_aliases.c leads to is there: a key, an option, a word that a key takes, a preset or a command."""
    rows = re.findall(r'\{"([\w.-]+)",\s*"', (ROOT / "src/config/name_aliases.c").read_text())
    there = set(commands()) | {option for options in commands().values() for option in options}
    for line in "".join(trireme(*words, "--keys", *what).stdout for words, what in ((["train"], []), (["tune"], []), (["plan"], ["clusters"]))).splitlines():
        key, kind = (line.split() + ["", ""])[:2]
        there |= {key, key.split(".")[-1], *kind.split("|")}
    there |= {path.stem for path in (ROOT / "configs/models").glob("*.yaml")} | {"gpu"}
    assert len(rows) > 80 and not set(rows) - there, set(rows) - there


def test_advice_is_legal(tmp_path):
    """The values that messages suggest are not refused for the same reason."""
    run = dict(model=MODEL, data=dict(train="none", sequence=16), layout=dict(micro_batch=3, data=1),
               optimizer=dict(global_batch=1 << 24, steps=4, lr=1e-3), output=str(tmp_path / "run"))
    (tmp_path / "run.yaml").write_text(yaml_of(run))
    done = trireme("train", tmp_path / "run.yaml", status=3)
    tried = re.search(r"is not a multiple .*; try (\d+)", done.stderr)
    assert int(tried[1]) <= 1 << 24 and int(tried[1]) % 3 == 0
    again = subprocess.run([TRIREME, "train", tmp_path / "run.yaml", "--set", f"optimizer.global_batch={tried[1]}"], capture_output=True, text=True)
    assert "global_batch" not in again.stderr.split("try")[0], again.stderr
    # The suggested rank fits all matrices, not only the first one that is too small.
    words = ["--set", "adapter.rank=200", "--set", "model.family=llama", "--set", "model.ffn_size=16", "--set", "optimizer.global_batch=3"]
    most = re.search(r"adapter.rank` 200 is above .*use at most (\d+)", trireme("train", tmp_path / "run.yaml", *words, status=3).stderr)[1]
    words[1] = f"adapter.rank={most}"
    assert "adapter.rank" not in subprocess.run([TRIREME, "train", tmp_path / "run.yaml", *words], capture_output=True, text=True).stderr
    # A last node that is not whole: the number above would be more than the cluster has.
    text = trireme_cluster().replace("max_devices: 8", "max_devices: 15")
    (tmp_path / "odd.yaml").write_text(text)
    words = ["plan", "--model", "gpt2-124m", "--cluster", tmp_path / "odd.yaml", "--global-batch", "16", "--devices"]
    assert trireme(*words, 12, status=2).stderr.strip().endswith("(8 devices each); try 8")
    assert trireme(*words, 8).returncode == 0


def test_home_folder(tmp_path):
    """`~/` that no shell has replaced is expanded in files, in --set, after = and as a word, by every command that takes paths."""
    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    here.mkdir()
    environment = {**os.environ, "HOME": str(home)}

    def run(*words, status=0):
        return trireme(*words, status=status, cwd=here, env=environment, stdin=subprocess.DEVNULL, errors="replace")

    (home / "text.txt").write_text("".join(f"The crew rows {i * 7919 % 1000} times, and rests.\n" for i in range(400)))
    (home / "prompt.txt").write_text("The crew")
    (home / "cluster.yaml").write_text(trireme_cluster())
    (home / "model.yaml").write_text(yaml_of(MODEL))
    run("prepare", "--tokenizer", "bytes", "--out=~/corpus", "--validation", "0.1", "--documents", "line", "~/text.txt")
    settings = dict(model="~/model.yaml", data=dict(train=["~/corpus/train"], validation="~/corpus/validation", sequence=16), threads=1,
                    optimizer=dict(global_batch=2, steps=2, lr=1e-3), layout=dict(micro_batch=2), output="~/one")
    (home / "run.yaml").write_text(yaml_of(settings))
    run("train", "~/run.yaml")
    run("train", "~/run.yaml", "--set", "output=~/two", "--set", "init=~/one", "--set", "seed=2")
    run("train", "~/run.yaml", "--set=output=~/three", "--set", "data.train=~/corpus/train", "--resume=~/one", "--timeline=~/time", "--set",
        "optimizer.steps=4")
    for name in ("one", "two", "three"):
        assert (home / name / "summary.json").exists() and f"output: {home}/{name}" in (home / name / "config.yaml").read_text()
    assert (home / "time.svg").exists()
    assert run("generate", "~/one", "--prompt", "~/text", "--tokens", "1").stdout.startswith("~/text")
    assert run("generate", "~/one", "--prompt-file=~/prompt.txt", "--tokens", "1").stdout.startswith("The crew")
    run("eval", "~/one", "~/corpus/validation", "--bigram=~/corpus/train", "--batch", "2")
    run("export", "~/one", "~/exported")
    run("import", "~/exported", "~/imported")
    run("merge", "~/one", "~/two", "--out", "~/merged")
    run("compare", "~/one", "~/two", "--svg=~/curves.svg", "--html=~/page.html")
    run("inspect", "--model=~/exported")
    run("inspect", "~/corpus/train", "--tokeni=~/corpus/tokenizer.json")
    planned = ["--model=~/model.yaml", "--cluster", "~/cluster.yaml", "--devices", "8", "--global-batch", "8"]
    run("plan", *planned)
    run("simulate", *planned, "--layout", "tensor=2", "--timeline=~/simulated.json")
    study = dict(name="s", model="~/model.yaml", cluster="~/cluster.yaml", devices=8, global_batch=8, trials=2, space=[dict(name="tensor", values="1 2")])
    (home / "study.yaml").write_text(yaml_of(study))
    run("tune", "~/study.yaml", "--store=~/study.db")
    run("tune", "report", "~/study.db", "--html=~/report.html")
    run("help", "--man-pages", "~/pages")
    made = ["curves.svg", "page.html", "merged/model.safetensors", "imported", "simulated.json", "study.db", "report.html", "pages/trireme.1"]
    assert all((home / name).exists() for name in made), [name for name in made if not (home / name).exists()]
    assert list(here.iterdir()) == []


def test_no_home_folder(tmp_path):
    """Without HOME, and of other users: said, by every command, before anything else is done."""
    nowhere = {name: value for name, value in os.environ.items() if name != "HOME"}
    for name in commands():
        said = trireme(name, "~/x", status=2, env=nowhere, stdin=subprocess.DEVNULL).stderr
        assert said == f"trireme: {name}: `~/x` is in the home folder, but HOME is not set; write the whole path\n"
        said = trireme(name, "~ann/x", status=2, env={**nowhere, "HOME": "/"}, stdin=subprocess.DEVNULL).stderr
        assert f"trireme: {name}: `~ann/x` names the home folder of another user, `ann`" in said
    said = trireme("merge", "a", "b", "--out=~/x", status=2, env={**nowhere, "HOME": ""}).stderr
    assert said == "trireme: merge: --out `~/x` is in the home folder, but HOME is empty; write the whole path\n"
    run = dict(model=MODEL, data=dict(train="~ann/corpus"), optimizer=dict(global_batch=2, steps=2, lr=1e-3), output="run")
    (tmp_path / "run.yaml").write_text(yaml_of(run))
    said = trireme("train", tmp_path / "run.yaml", status=3, cwd=tmp_path).stderr
    assert "`train` under `data:` at line" in said and "another user, `ann`" in said
    said = trireme("train", tmp_path / "run.yaml", "--set", "data.train=c", "--set", "output=~/x", status=3, env=nowhere).stderr
    assert "`output`" in said and "HOME is not set" in said and "--set" in said


def trireme_cluster():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../configs/clusters/a100-node.yaml"), encoding="utf-8") as f:
        return f.read()


def test_help_of_keys_and_sections():
    """By the full name, by the last name, a whole section; folded to what the terminal is wide."""
    said = trireme("help", "optimizer.lr").stdout
    assert said == "optimizer.lr (run file)\n    number; required\n    highest learning rate\n" == trireme("help", "lr").stdout
    listed = trireme("help", "run").stdout
    for section in ("optimizer", "layout", "evaluation", "checkpoint"):
        keys = re.findall(rf"^  ({section}(?:\.\S+)?) ", listed, re.M)
        assert re.findall(r"^(\S+) \(run file\)$", trireme("help", section).stdout, re.M) == keys and len(keys) > 3
    for columns in (40, 60, 100):
        text = trireme("help", "layout", env={**os.environ, "COLUMNS": str(columns)}).stdout
        assert all(len(line) <= columns or " " not in line.strip() for line in text.splitlines())
        assert len(text.splitlines()) > 80
    assert "(cluster file)" in trireme("help", "memory_bandwidth").stdout
    assert "did you mean `optimizer.lr`?" in trireme("help", "learning_rate", status=2).stderr
    for typed, meant in (("optimizer.epoch", "optimizer.epochs"), ("optimzer.lr", "optimizer.lr"), ("warmpu", "optimizer.warmup"), ("layout.tensors", "layout.tensor")):
        assert f"did you mean `{meant}`?" in trireme("help", typed, status=2).stderr
    assert "is neither a command nor a kind of file nor a key" in trireme("help", "zzzz", status=2).stderr


def test_version():
    assert trireme("version").stdout == trireme("-v").stdout == trireme("--version").stdout


def test_nearest_file(tmp_path):
    (tmp_path / "shakespeare.yaml").write_text("model: gpt2-demo\n")
    said = trireme("train", tmp_path / "shakespere.yaml", status=4).stderr
    assert f"cannot open {tmp_path}/shakespere.yaml: No such file or directory; did you mean {tmp_path}/shakespeare.yaml?" in said
    assert "did you mean" not in trireme("train", tmp_path / "another.yaml", status=4).stderr


def test_whole_numbers_with_exponents(tmp_path):
    """1e3 where a whole number is meant; 1.5 and 1e-3 are none."""
    (tmp_path / "text.txt").write_text("some text\n" * 50)
    trireme("prepare", "--tokenizer", "bytes", "--out", tmp_path / "c", "--seed", "1e1", tmp_path / "text.txt")
    run = dict(model=MODEL, data=dict(train=str(tmp_path / "c/train"), sequence=32), optimizer=dict(global_batch=2, steps=1000, lr=1e-3), output=str(tmp_path / "run"))
    (tmp_path / "run.yaml").write_text(yaml_of(run))
    for steps, number in (("2e0", 2), ("0.3e1", 3)):
        trireme("train", tmp_path / "run.yaml", "--set", f"optimizer.steps={steps}", "--set", "optimizer.warmup=1e0", "--resume", "never")
        assert f"\n  steps: {number} " in (tmp_path / "run/config.yaml").read_text()
    for steps in ("1.5", "1e-3", "1e99", "1e", "e3", "0x10", "inf"):
        assert "optimizer.steps" in trireme("train", tmp_path / "run.yaml", "--set", f"optimizer.steps={steps}", status=3).stderr
    words = ["simulate", "--model", "gpt2-124m", "--cluster", "dgx-h100", "--layout", "tensor=1", "--global-batch", "1", "--json"]
    assert trireme(*words, "--devices", "1e0").stdout == trireme(*words, "--devices", "1").stdout


SMALL_PLAN = ["plan", "--cluster", "dgx-h100", "--devices", 8, "--global-batch", 8, "--json"]


@pytest.mark.parametrize("typed,plain", [
    (["--model", "gpt2-124m", "--sequence", "1k"], ["--model", "gpt2-124m", "--sequence", 1024]), (["--model", "gpt2-124m", "--sequence", "1K"], ["--model", "gpt2-124m", "--sequence", 1024]),
    (["--model", "llama-3-8b", "--sequence", "8k"], ["--model", "llama-3-8b", "--sequence", 8192]), (["--model", "GPT2-124M"], ["--model", "gpt2-124m"]), (["--model", "gpt2-124m.yaml"], ["--model", "gpt2-124m"]),
    (["--model", "GPT2-124M.yml"], ["--model", "gpt2-124m"]), (["--model", "gpt2-124m", "--cluster", "DGX-H100"], ["--model", "gpt2-124m"]), (["--model", "gpt2-124m", "--cluster", "dgx-h100.yaml"], ["--model", "gpt2-124m"]),
    (["--model", "gpt2-124m", "--mtbf", "100d", "--cluster", "selene-a100-80"], ["--model", "gpt2-124m", "--mtbf", 2400, "--cluster", "selene-a100-80"]),
    (["--model", "gpt2-124m", "--mtbf", "2400h", "--cluster", "selene-a100-80"], ["--model", "gpt2-124m", "--mtbf", 2400, "--cluster", "selene-a100-80"]),
], ids=lambda words: " ".join(map(str, words))[:40])
def test_names_and_units_as_people_write_them(typed, plain):
    done, expected = (subprocess.run(words_of(*SMALL_PLAN, *words), capture_output=True, text=True) for words in (typed, plain))
    assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout)
    messages = [[line for line in one.stderr.splitlines() if not line.startswith("searching: ")] for one in (done, expected)]  # a busy machine prints progress
    assert messages[0][-1:] == messages[1][-1:]


def test_lengths_of_run_files(tmp_path):
    (tmp_path / "text.txt").write_text("some text\n" * 500)
    trireme("prepare", "--tokenizer", "bytes", "--out", tmp_path / "c", tmp_path / "text.txt")
    model = dict(MODEL, max_sequence="1k")
    run = dict(model=model, data=dict(train=str(tmp_path / "c/train"), sequence="1K"), optimizer=dict(global_batch=1, steps=1, lr=1e-3), output=str(tmp_path / "run"))
    (tmp_path / "run.yaml").write_text(yaml_of(run).replace('"1k"', "1k").replace('"1K"', "1K"))
    trireme("train", tmp_path / "run.yaml")
    assert re.search(r"\n  sequence: 1024 ", (tmp_path / "run/config.yaml").read_text()) and re.search(r"\n  max_sequence: 1024 ", (tmp_path / "run/config.yaml").read_text())


@pytest.mark.parametrize("words,said", [
    (["--sequence", "8q"], "--sequence takes a number of tokens, as 4096 or 4k, not `8q`"), (["--sequence", "1.5k"], "not `1.5k`"), (["--sequence", "k"], "not `k`"), (["--sequence", "-1k"], "not `-1k`"), (["--sequence", "4kk"], "not `4kk`"),
    (["--sequence", "99999999m"], "--sequence must be from 1 to"), (["--sequence", "9999999999999999m"], "not `9999999999999999m`"),
    (["--mtbf", "8q"], "--mtbf takes a number of hours, as 2400, or of days, as 100d, not `8q`"), (["--mtbf", "d"], "not `d`"), (["--mtbf", "1dd"], "not `1dd`"), (["--mtbf", "0d"], "from 0.001 to"),
    (["--model", "gpt2-124x"], "did you mean `gpt2-124m`?"), (["--model", "nothing.yaml"], "a file that does not exist: nothing.yaml"),
], ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_units_and_names_that_are_none(words, said):
    assert said in trireme(*SMALL_PLAN, *(["--model", "gpt2-124m"] if "--model" not in words else []), *words, status=(3 if "--model" in words else 2)).stderr


def test_one_of_a_thing():
    """1 device, 1 sequence."""
    said = trireme("simulate", "--model", "gpt2-124m", "--cluster", "dgx-h100", "--devices", 1, "--layout", "tensor=1", "--global-batch", 1).stdout
    assert "on 1 device of dgx-h100" in said and "a step of 1 sequence: " in said
    assert not re.search(r"(?<![\d.])1 (devices|sequences|steps|threads|documents|micro-batches)\b", said)


def test_ranges_of_devices_in_other_words():
    words = ["plan", "--model", "gpt2-124m", "--cluster", "dgx-h100", "--global-batch", 8]
    said = trireme(*words, "--devices", "64-512", status=2).stderr
    assert "--devices takes a whole number, a range such as 512..2048 or 512..2048:256, or a list such as 64,128,512, not `64-512`" in said
    assert "--devices A..B" in trireme("plan", "--help").stdout
