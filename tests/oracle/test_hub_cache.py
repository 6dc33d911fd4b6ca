"""Models by their names on the Hugging Face hub: every command reads the files that huggingface_hub finds in its cache. Files that the cache
lacks, and links that lead out of it, are refused. Oracle: the lookup of huggingface_hub itself."""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from parity import trireme, words_of, yaml_of

MODEL = dict(family="llama", num_layers=2, hidden_size=16, num_heads=4, num_kv_heads=2, ffn_size=24, vocab_size=257, max_sequence=32)
NAME = "Acme/Tiny-0.1B"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model's folder with a tokenizer, a corpus, and the cache that `hf download` would have made of the folder."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "text.txt").write_text("".join(f"Oars {i} of {i * 7919 % 1000}.\n" for i in range(60)))
    trireme("prepare", "--tokenizer", "train:300", "--out", folder / "data", folder / "text.txt")
    size = len(json.loads((folder / "data/tokenizer.json").read_text())["model"]["vocab"]) + 8
    (folder / "run.yaml").write_text(yaml_of(dict(
        model=dict(MODEL, vocab_size=size), data=dict(train=str(folder / "data/train"), sequence=16), layout=dict(micro_batch=2),
        optimizer=dict(global_batch=2, steps=2, lr=1e-2), evaluation=dict(every=0), output=str(folder / "run"))))
    trireme("train", folder / "run.yaml")
    trireme("export", folder / "run", folder / "plain")
    store(folder / "hub", NAME, COMMIT, folder / "plain")
    return folder


def store(hub, name, commit, source, ref="main"):
    root = hub / ("models--" + name.replace("/", "--"))
    snapshot = root / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (root / "blobs").mkdir(exist_ok=True)
    for path in sorted(source.iterdir()):
        if path.is_dir():
            continue
        blob = root / "blobs" / hashlib.sha256(path.read_bytes()).hexdigest()
        shutil.copy(path, blob)
        (snapshot / path.name).symlink_to(os.path.relpath(blob, snapshot))
    if ref:
        (root / "refs" / ref).parent.mkdir(parents=True, exist_ok=True)
        (root / "refs" / ref).write_text(commit)
    return snapshot


@pytest.fixture
def hub(made, tmp_path):
    """A copy of the cache that a test may change."""
    shutil.copytree(made / "hub", tmp_path / "hub", symlinks=True)
    return tmp_path / "hub"


def ask(hub, *arguments, status=0, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HF_") and k != "XDG_CACHE_HOME"}
    done = subprocess.run(words_of(*arguments), capture_output=True, text=True, errors="replace", env={**environment, **(variables or dict(HF_HUB_CACHE=str(hub)))})
    assert done.returncode == status, done.stderr
    return done


def run_file(made, tmp_path, name="run", **more):
    size = int(next(line.split(":")[1].split("#")[0] for line in (made / "run/config.yaml").read_text().splitlines() if "vocab_size:" in line))
    run = dict(dict(data=dict(train=str(made / "data/train"), sequence=16), layout=dict(micro_batch=2), optimizer=dict(global_batch=2, steps=3, lr=1e-2),
                    evaluation=dict(every=0), output=str(tmp_path / name)), **more)
    assert size > 0
    (tmp_path / f"{name}.yaml").write_text(yaml_of(run))
    return tmp_path / f"{name}.yaml"


def metrics(folder):
    return [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("where", ["HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"])
def test_it_is_where_the_hub_says(made, tmp_path, where):
    below = {"HF_HUB_CACHE": "", "HF_HOME": "hub", "XDG_CACHE_HOME": "huggingface/hub", "HOME": ".cache/huggingface/hub"}[where]
    shutil.copytree(made / "hub", tmp_path / "x" / below, symlinks=True)
    variables = {where: str(tmp_path / "x")}
    script = f"from huggingface_hub import snapshot_download; print(snapshot_download({NAME!r}, local_files_only=True))"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HF_") and k != "XDG_CACHE_HOME"}
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env={**environment, **variables})
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip() == str(tmp_path / "x" / below / "models--Acme--Tiny-0.1B/snapshots" / COMMIT)
    listed = ask(None, "inspect", NAME, "--json", **variables)
    wanted = json.loads(trireme("inspect", made / "plain", "--json").stdout)
    differing = {key for key, value in json.loads(listed.stdout).items() if value != wanted[key]}
    assert len(wanted["tensors"]) > 10 and differing == {"path"}, (listed.stdout, wanted)


def test_every_command_that_reads_a_model(made, tmp_path, hub):
    text = made / "data/validation"
    for name in (NAME, f"{NAME}@{COMMIT}", f"{NAME}@main"):
        assert ask(hub, "eval", name, text).stdout == trireme("eval", made / "plain", text).stdout
    words = ["--prompt", "Oars", "--tokens", 5, "--temperature", 0]
    written = trireme("generate", made / "plain", *words, errors="replace").stdout
    assert ask(hub, "generate", NAME, *words).stdout == written
    assert ask(hub, "generate", made / "plain", "--tokenizer", NAME, *words).stdout == written
    assert ask(hub, "generate", made / "plain", "--tokenizer", made / "plain", *words).stdout == written
    ask(hub, "prepare", "--tokenizer", NAME, "--out", tmp_path / "out", made / "text.txt")
    assert (tmp_path / "out/train.bin").read_bytes() == (made / "data/train.bin").read_bytes()
    ask(hub, "export", NAME, tmp_path / "copy")
    assert (tmp_path / "copy/model.safetensors").read_bytes() == (made / "plain/model.safetensors").read_bytes()
    assert not any(path.is_symlink() for path in (tmp_path / "copy").iterdir())
    planned = ask(hub, "simulate", "--model", NAME, "--cluster", "dgx-h100", "--devices", 1, "--global-batch", 8, "--layout", "zero=0", "--json")
    plain = trireme("simulate", "--model", made / "plain", "--cluster", "dgx-h100", "--devices", 1, "--global-batch", 8, "--layout", "zero=0", "--json")
    assert json.loads(planned.stdout)["step_s"] == json.loads(plain.stdout)["step_s"]


def test_tuned_from_the_cache_is_tuned_from_the_folder(made, tmp_path, hub):
    ask(hub, "train", run_file(made, tmp_path, "hub-run", init=NAME))
    ask(hub, "train", run_file(made, tmp_path, "plain-run", init=str(made / "plain")))
    assert metrics(tmp_path / "hub-run") == metrics(tmp_path / "plain-run")
    for folder in ("hub-run", "plain-run"):
        trireme("export", tmp_path / folder, tmp_path / f"{folder}-out")
    assert (tmp_path / "hub-run-out/model.safetensors").read_bytes() == (tmp_path / "plain-run-out/model.safetensors").read_bytes()
    assert f'\ninit: "{NAME}@{COMMIT}"' in (tmp_path / "hub-run/config.yaml").read_text()


def test_an_adapter_and_a_resumed_run_stay_at_their_commit(made, tmp_path, hub):
    """Then main moves on, to another model of the same shape: the run and its adapter still mean the first."""
    lora = dict(init=NAME, adapter=dict(rank=2, alpha=4))
    path = run_file(made, tmp_path, "lora", **lora)
    ask(hub, "train", path)
    newest = tmp_path / "lora/checkpoints/step-00000003/adapter_config.json"
    said = json.loads(newest.read_text())
    assert (said["base_model_name_or_path"], said["revision"]) == (NAME, COMMIT)
    text = made / "data/validation"
    before = ask(hub, "eval", tmp_path / "lora", text).stdout
    other = "f" * 40
    store(hub, NAME, other, make_other(made, tmp_path))
    assert ask(hub, "eval", tmp_path / "lora", text).stdout == before
    assert ask(hub, "eval", NAME, text).stdout != ask(hub, "eval", f"{NAME}@{COMMIT}", text).stdout
    said = ask(hub, "train", path, "--set", "optimizer.steps=6").stderr
    assert f"`init` stays at {NAME}@{COMMIT}, with which this run began; the cache has another commit by now" in said
    assert f'\ninit: "{NAME}@{COMMIT}"' in (tmp_path / "lora/config.yaml").read_text()
    ask(hub, "train", run_file(made, tmp_path, "whole", **dict(lora, init=str(made / "plain"), optimizer=dict(global_batch=2, steps=6, lr=1e-2))))
    ask(hub, "export", "--merge", tmp_path / "lora", tmp_path / "merged")
    said = ask(hub, "train", path, "--set", "output=" + str(tmp_path / "anew")).stderr
    assert f'\ninit: "{NAME}@{other}"' in (tmp_path / "anew/config.yaml").read_text()
    assert ask(hub, "eval", tmp_path / "anew", text, "--base", f"{NAME}@{other}").stdout == ask(hub, "eval", tmp_path / "anew", text).stdout
    assert ask(hub, "eval", tmp_path / "anew", text, "--base", f"{NAME}@{COMMIT}").stdout != ask(hub, "eval", tmp_path / "anew", text).stdout


def make_other(made, tmp_path):
    trireme("train", made / "run.yaml", "--set", f"output={tmp_path}/second", "--set", "seed=9")
    trireme("export", tmp_path / "second", tmp_path / "moved-on")
    return tmp_path / "moved-on"


def test_adapters_of_others(made, tmp_path, hub):
    """PEFT writes only the name, without a revision; the revision in the cache is used."""
    ask(hub, "train", run_file(made, tmp_path, "lora", init=str(made / "plain"), adapter=dict(rank=2, alpha=4)))
    folder = tmp_path / "lora/checkpoints/step-00000003"
    trireme("export", folder, tmp_path / "peft")
    config = json.loads((tmp_path / "peft/adapter_config.json").read_text())
    config.update(base_model_name_or_path=NAME, revision=None)
    (tmp_path / "peft/adapter_config.json").write_text(json.dumps(config))
    text = made / "data/validation"
    assert ask(hub, "eval", tmp_path / "peft", text).stdout == ask(hub, "eval", tmp_path / "peft", text, "--base", made / "plain").stdout
    config.update(base_model_name_or_path="Nobody/Nothing", revision="v2")
    (tmp_path / "peft/adapter_config.json").write_text(json.dumps(config))
    said = ask(hub, "eval", tmp_path / "peft", text, status=2).stderr
    assert "is an adapter of Nobody/Nothing@v2, which is not an existing folder" in said
    assert "hf download Nobody/Nothing --revision v2 --local-dir models/Nothing" in said


def test_a_folder_wins(made, tmp_path, hub):
    shutil.copytree(made / "plain", tmp_path / "Acme/Tiny-0.1B")
    (hub / "models--Acme--Tiny-0.1B/refs/main").write_text("nonsense")
    done = subprocess.run(words_of("inspect", NAME), capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "HF_HUB_CACHE": str(hub)})
    assert done.returncode == 0, done.stderr


def test_what_the_cache_has_not(made, tmp_path, hub):
    root = hub / "models--Acme--Tiny-0.1B"
    advice = f"as a name on the Hugging Face hub it is not in the cache {hub}. Trireme downloads nothing: hf download Nobody/Nothing --local-dir models/Nothing, then name models/Nothing"
    for arguments, status in ((["generate", "Nobody/Nothing", "--prompt", "x"], 4), (["eval", "Nobody/Nothing", made / "data/train"], 4),
                              (["inspect", "Nobody/Nothing"], 3), (["export", "Nobody/Nothing", tmp_path / "out"], 4),
                              (["prepare", "--tokenizer", "Nobody/Nothing", "--out", tmp_path / "out", made / "text.txt"], 4),
                              (["train", run_file(made, tmp_path, init="Nobody/Nothing")], 3),
                              (["plan", "--model", "Nobody/Nothing", "--cluster", "dgx-h100", "--devices", 8, "--global-batch", 8], 3)):
        assert advice in ask(hub, *arguments, status=status).stderr
    said = ask(hub, "plan", "--model", "meta-llama/Llama-3.1-405B", "--cluster", "dgx-h100", "--devices", 8, "--global-batch", 8, status=3).stderr
    assert "its architecture is the preset `llama-3-405b`; as a name on the Hugging Face hub" in said
    said = ask(hub, "plan", "--model", "Qwen/Qwen3-0.6B", "--cluster", "dgx-h100", "--devices", 8, "--global-batch", 8, status=3).stderr
    assert "its architecture is the preset `qwen3-0.6b`" in said
    said = ask(hub, "plan", "--model", "openai-community/gpt2", "--cluster", "dgx-h100", "--devices", 8, "--global-batch", 8, status=3).stderr
    assert "its architecture is the preset `gpt2-124m`" in said
    said = ask(hub, "inspect", f"{NAME}@v7", status=4).stderr
    assert f"{NAME}@v7: the cache {root} has no revision `v7` of this model; name one that it has ({NAME}@COMMIT, see snapshots/ there), or download it: hf download {NAME} --revision v7" in said
    said = ask(hub, "inspect", f"{NAME}@{'a' * 40}", status=4).stderr
    assert f"the cache does not have the commit that is asked for: {root}/snapshots/{'a' * 40}; download it again: hf download {NAME}" in said
    (root / "refs/main").write_text("b" * 40)
    said = ask(hub, "inspect", NAME, status=4).stderr
    assert f"the cache does not have the commit that is asked for: {root}/snapshots/{'b' * 40}" in said
    (root / "refs/main").write_text("../../somewhere")
    assert f"{root}/refs/main does not contain a commit" in ask(hub, "inspect", NAME, status=4).stderr


def test_links(made, tmp_path, hub):
    root = hub / "models--Acme--Tiny-0.1B"
    snapshot = root / "snapshots" / COMMIT
    weights = snapshot / "model.safetensors"
    blob = weights.resolve()
    weights.unlink()
    weights.symlink_to(made / "plain/model.safetensors")
    said = ask(hub, "inspect", NAME, status=4).stderr
    assert f"{weights} is a link out of this model's blobs, to {made}/plain/model.safetensors; such a link is not followed" in said
    weights.unlink()
    weights.symlink_to("../../blobs/" + "0" * 64)
    assert f"a file of the cache is missing its content: {weights}; download it again: hf download {NAME}" in ask(hub, "inspect", NAME, status=4).stderr
    weights.unlink()
    shutil.copy(blob, weights)  # as on systems without links
    ask(hub, "inspect", NAME)
    weights.unlink()
    said = ask(hub, "eval", NAME, made / "data/validation", status=4).stderr
    assert "model.safetensors" in said


def test_a_snapshot_that_is_a_link(made, tmp_path, hub):
    """Out of the model's own folder it is not followed; that folder itself may be one, as on another disk."""
    root = hub / "models--Acme--Tiny-0.1B"
    snapshot = root / "snapshots" / COMMIT
    wanted = ask(hub, "inspect", NAME).stdout
    root.rename(tmp_path / "elsewhere")
    root.symlink_to(tmp_path / "elsewhere")
    assert ask(hub, "inspect", NAME).stdout == wanted
    snapshot.rename(tmp_path / "kept")
    snapshot.symlink_to(made / "plain")
    said = ask(hub, "inspect", NAME, status=4).stderr
    assert f"{snapshot} is a link out of this model's snapshots, to {made}/plain; such a link is not followed" in said


def test_addresses_of_the_hub(hub):
    for given in (f"https://huggingface.co/{NAME}", f"hf://{NAME}", f"{NAME}/"):
        assert f"; a model on the Hugging Face hub is named {NAME}" in ask(hub, "inspect", given, status=3).stderr


def test_a_shard_that_is_missing(made, tmp_path, hub):
    from safetensors.numpy import load_file, save_file
    source = tmp_path / "shards"
    shutil.copytree(made / "plain", source)
    tensors = load_file(source / "model.safetensors")
    names = sorted(tensors)
    (source / "model.safetensors").unlink()
    files = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    for k, file in enumerate(files):
        save_file({name: tensors[name] for name in names[k::2]}, source / file, metadata=dict(format="pt"))
    (source / "model.safetensors.index.json").write_text(json.dumps(dict(metadata={}, weight_map={name: files[i % 2] for i, name in enumerate(names)})))
    snapshot = store(hub, "Acme/Shards", COMMIT, source)
    text = made / "data/validation"
    assert ask(hub, "eval", "Acme/Shards", text).stdout == trireme("eval", made / "plain", text).stdout
    (snapshot / files[1]).unlink()
    assert files[1] in ask(hub, "eval", "Acme/Shards", text, status=4).stderr


def test_outputs_are_never_names_on_the_hub(made, tmp_path, hub):
    environment = {**os.environ, "HF_HUB_CACHE": str(hub)}
    done = subprocess.run(words_of("export", made / "run", NAME), capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / NAME / "config.json").exists() and len(list(pathlib.Path(hub).rglob("*.tmp*"))) == 0
