"""A folder that holds a model stands wherever a preset may: its settings are those of its config.json."""
import json
import os
import shutil
import subprocess

import pytest
from parity import TRIREME, trireme, yaml_of

MODELS = {
    "gpt2": dict(family="gpt2", num_layers=2, hidden_size=16, num_heads=2, vocab_size=257, max_sequence=32, dropout=0.1),
    "gpt2-unusual": dict(family="gpt2", num_layers=1, hidden_size=16, num_heads=4, ffn_size=40, vocab_size=257, max_sequence=32,
                         tied=False, activation="gelu_erf", norm_eps=3e-6, init_std=0.0125),
    "llama": dict(family="llama", num_layers=2, hidden_size=32, num_heads=4, num_kv_heads=2, head_dim=12, ffn_size=48,
                  vocab_size=257, max_sequence=32, tied=True, rope_theta=500000.0,
                  rope_scaling=dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_sequence=16)),
    "qwen": dict(family="llama", num_layers=1, hidden_size=32, num_heads=4, ffn_size=48, vocab_size=257, max_sequence=32,
                 attention_bias=True, norm_eps=1e-6),
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.txt").write_text("".join(f"Stroke {i} of {i * 7919 % 1000}.\n" for i in range(200)))
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt")
    return folder / "data/train"


def write_run(folder, corpus, model, name):
    path = folder / f"{name}.yaml"
    path.write_text(yaml_of(dict(model=model, data=dict(train=str(corpus), sequence=16), layout=dict(micro_batch=2),
                                 optimizer=dict(global_batch=2, steps=2, lr=1e-3), checkpoint=dict(every=1),
                                 evaluation=dict(every=0), output=str(folder / name))))
    return path


def model_of(output):
    """The lines of `model:` in the run file that the newest checkpoint remembers, without the model's name."""
    newest = sorted((output / "checkpoints").iterdir())[-1]
    text = json.loads((newest / "state.json").read_text())["config"]
    section = text[text.index("\nmodel:") + 1 : text.index("\ndata:")].splitlines()[1:]
    return {line.split("#")[0].strip() for line in section if "name:" not in line}


@pytest.mark.parametrize("name", MODELS)
def test_every_setting_arrives(tmp_path, corpus, name):
    trireme("train", write_run(tmp_path, corpus, MODELS[name], "keys"))
    trireme("export", tmp_path / "keys", tmp_path / "exported")
    expected = model_of(tmp_path / "keys")
    assert len(expected) > 15
    checkpoint = tmp_path / "keys/checkpoints/step-00000001"
    for number, folder in enumerate((tmp_path / "exported", checkpoint, tmp_path / "keys", tmp_path / "keys/checkpoints")):
        trireme("train", write_run(tmp_path, corpus, str(folder), f"folder{number}"))
        assert model_of(tmp_path / f"folder{number}") == expected, folder
    trireme("train", write_run(tmp_path, corpus, "gpt2-124m", "set"), "--set", f"model={tmp_path}/exported")
    assert model_of(tmp_path / "set") == expected
    # Relative to the current directory, as a file is.
    done = trireme("train", write_run(tmp_path, corpus, "exported", "relative"), cwd=tmp_path)
    assert model_of(tmp_path / "relative") == expected and "exported: " in done.stderr


def test_keys_beside_a_folder(tmp_path, corpus):
    """They go before it, and what follows from them follows, as with a preset."""
    trireme("train", write_run(tmp_path, corpus, MODELS["gpt2"], "keys"))
    run = write_run(tmp_path, corpus, "keys", "more")
    trireme("train", run, "--set", "model.dropout=0.25", "--set", "model.num_heads=4", "--set", "model.hidden_size=32", cwd=tmp_path)
    found = model_of(tmp_path / "more")
    assert {"dropout: 0.25", "num_heads: 4", "num_kv_heads: 4", "head_dim: 8", "ffn_size: 128", "num_layers: 2"} <= found
    done = trireme("train", run, "--set", "model.num_heads=3", cwd=tmp_path, status=3)
    assert done.stderr == ("trireme: --set model.num_heads=3: `num_heads` 3 does not divide hidden_size 16: num_heads 3 x head_dim 5 = "
                           "15; try num_heads 2\n")


def test_every_command(tmp_path, corpus):
    trireme("train", write_run(tmp_path, corpus, MODELS["llama"], "keys"))
    trireme("export", tmp_path / "keys", tmp_path / "exported")
    (tmp_path / "file.yaml").write_text(yaml_of(MODELS["llama"]))
    counted = [json.loads(trireme("inspect", *words, "--json").stdout)["parameters"]
               for words in (["--model", tmp_path / "exported"], ["--model", tmp_path / "keys"], [tmp_path / "file.yaml"])]
    assert counted[0] == counted[1] == counted[2] > 0
    done = trireme("inspect", "--model", tmp_path / "exported", tmp_path, status=2)
    assert done.stderr == f"trireme: inspect: --model {tmp_path}/exported or `{tmp_path}`, not both\n"
    machine = ["--cluster", "frontier", "--devices", "8", "--global-batch", "64", "--json"]
    for words in (["plan"], ["simulate", "--layout", "data=8"]):
        shown = [json.loads(trireme(*words, "--model", model, *machine).stdout) for model in (tmp_path / "exported", tmp_path / "file.yaml")]
        best = [facts[0] if isinstance(facts, list) else facts for facts in shown]
        assert best[0]["layout"] == best[1]["layout"] and best[0]["step_s"] == best[1]["step_s"]
        assert best[0]["memory"] == best[1]["memory"]
    (tmp_path / "study.yaml").write_text(yaml_of(dict(
        name="folder", model=str(tmp_path / "exported"), cluster="frontier", devices=8, global_batch=64, trials=2, initial=2,
        space=[dict(name="micro_batch", values="1 2")])))
    done = subprocess.run([TRIREME, "tune", "study.yaml"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_preset_goes_before_a_folder_of_its_name(tmp_path, corpus):
    trireme("train", write_run(tmp_path, corpus, MODELS["gpt2"], "keys"))
    trireme("export", tmp_path / "keys", tmp_path / "gpt2-124m")
    done = trireme("inspect", "--model", "gpt2-124m", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["parameters"] == 124439808
    assert done.stderr == "warning: the model `gpt2-124m` is the preset; for the folder of that name write ./gpt2-124m\n"
    for name in ("./gpt2-124m", "gpt2-124m/"):
        done = trireme("inspect", "--model", name, "--json", cwd=tmp_path)
        assert json.loads(done.stdout)["parameters"] < 100000 and done.stderr == ""
    (tmp_path / "gpt2-124m/config.json").unlink()  # a folder of anything is not news
    assert trireme("inspect", "--model", "gpt2-124m", cwd=tmp_path).stderr == ""


def test_what_is_no_model(tmp_path, corpus):
    trireme("train", write_run(tmp_path, corpus, MODELS["gpt2"], "keys"))

    def refused(name, status):
        return trireme("inspect", "--model", name, cwd=tmp_path, status=status).stderr

    (tmp_path / "empty").mkdir()
    assert refused("empty", 4) == "trireme: empty contains neither a model (config.json) nor a checkpoint (step-...) nor an adapter (adapter_config.json): it is empty\n"
    assert refused("no/such/model", 3) == ("trireme: the model is neither an existing folder nor an existing file: no/such/model (relative to the "
                                           "current directory)\n")
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert/config.json").write_text(json.dumps(dict(model_type="bert", hidden_size=16)))
    fault = "bert/config.json: `model_type` is `bert`; gpt2, llama, mistral, ministral, qwen2, qwen3, mixtral, qwen3_moe, olmoe, dots1, gemma, gemma2, gemma3_text, phi, phi3, gpt_neox, olmo2, smollm3, falcon, stablelm, granite, opt and starcoder2 are supported"
    assert refused("bert", 7) == f"trireme: {fault}\n"
    assert refused("bert/config.json", 3) == "trireme: the model is a config.json; name the folder that it is in: bert/\n"
    run = tmp_path / "run.yaml"
    run.write_text("model: bert\ndata: {train: x}\noptimizer: {global_batch: 1, steps: 1, lr: 1}\noutput: y\n")
    done = trireme("train", run, cwd=tmp_path, status=7)
    assert done.stderr == f"trireme: {fault} (`model:` at line 1 of {run})\n"
    for words in (["plan", "--model", "bert", "--cluster", "frontier", "--devices", "8", "--global-batch", "8"],):
        assert trireme(*words, cwd=tmp_path, status=7).stderr == f"trireme: {fault}\n"
    # Damage of a checkpoint's settings is found here as well; in a run's output an older checkpoint has them.
    newest = tmp_path / "keys/checkpoints/step-00000002"
    text = (newest / "config.json").read_text()
    (newest / "config.json").write_text(text.replace('"n_head": 2', '"n_head": 4'))
    assert f"{newest}/config.json is damaged: it has the checksum " in refused(newest, 4)
    done = trireme("inspect", "--model", "keys", cwd=tmp_path)
    assert "passing over the checkpoint keys/checkpoints/step-00000002: " in done.stderr and "2 heads" in done.stdout
    (newest / "state.json").unlink()
    assert "a checkpoint that has COMPLETE but not this file is damaged" in refused(newest, 4)


def test_a_folder_and_ranks(tmp_path, corpus):
    if shutil.which("mpiexec") is None:
        pytest.skip("SKIPPED: there is no mpiexec")
    trireme("train", write_run(tmp_path, corpus, MODELS["llama"], "keys"))
    trireme("train", write_run(tmp_path, corpus, str(tmp_path / "keys"), "two"), "-n", 2, "--set", "layout.tensor=2")
    assert model_of(tmp_path / "two") == model_of(tmp_path / "keys")


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *os.sys.argv[1:]]))


def test_a_folder_of_two_models(tmp_path, corpus):
    """Weights of two layers and a config.json of one: no command silently reads one layer."""
    trireme("train", write_run(tmp_path, corpus, MODELS["llama"], "whole"))
    folder = tmp_path / "folder"
    trireme("export", tmp_path / "whole", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 1}))
    run = write_run(tmp_path, corpus, str(folder), "tuned")
    for words in (["generate", folder, "--prompt", "x"], ["eval", folder, corpus], ["export", folder, tmp_path / "out"], ["import", folder, tmp_path / "out"],
                  ["merge", folder, folder, "--out", tmp_path / "out"], ["train", run, "--set", f"init={folder}"]):
        said = trireme(*words, status=4).stderr
        assert "no place for the tensor `model.layers.1.input_layernorm.weight` (num_hidden_layers 1); config.json and the weights are not of one model" in said, said
    assert not (tmp_path / "out").exists()
