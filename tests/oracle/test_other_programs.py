"""Commands, keys and options by the names that other programs have for them: each is answered with what Trireme has in its place. Lists of
names as texts with commas. Outputs that are named as files."""
import json

import pytest
from parity import trireme

COMMANDS = {
    "chat": "talk with a model by: trireme generate RUN --chat", "server": "a model is served by `trireme serve RUN` (docs/serving.md)",
    "infer": "did you mean `generate`?", "sft": "fine-tuning is `trireme train` of a run file with `init: FOLDER`", "finetune": "with `init: FOLDER`",
    "pretrain": "did you mean `train`?", "lora": "an adapter is the section `adapter:` of a run file", "dpo": "learning from preferences is `trireme train` of a run file with data.preferences and objective.name",
    "grpo": "reinforcement learning is `trireme train` of a run file with objective.name: grpo, data.prompts, rollout and reward",
    "ppo": "PPO's critic and reward models are not supported; the nearest is objective.name: grpo", "convert": "`trireme import` reads a Hugging Face folder; `trireme export` writes one, or a GGUF file: trireme export MODEL FILE.gguf",
    "push": "nothing is uploaded; hf upload takes the folder that `trireme export` writes", "download": "nothing is downloaded: hf download NAME",
    "gguf": "trireme export MODEL FILE.gguf --dtype q8_0 writes a GGUF file", "init": "trireme new NAME --model M --data PREFIX",
}
KEYS = {
    "max_seq_length=5": "did you mean `data.sequence`?", "packing=true": "did you mean `data.packing`?", "num_train_epochs=3": "did you mean `optimizer.epochs`?",
    "num_epochs=3": "did you mean `optimizer.epochs`?", "report_to=wandb": "examples/follow_metrics.py --wandb passes them on", "wandb=true": "examples/follow_metrics.py --wandb",
    "optimizer.neftune_noise_alpha=5": "(NEFTune) is not supported", "loss=dpo": "the loss is objective.name: cross_entropy of the next token, or of preferences (sigmoid is dpo",
    "assistant_only_loss=true": "trireme prepare --chat marks the answers", "use_dora=true": "it is adapter.magnitude: true", "use_rslora=true": "it is adapter.scaling: rslora",
    "fp16=true": "fp16 is not supported; use precision: bf16", "tasks=mmlu": "trireme eval RUN --choices FILE",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command):
    said = trireme(command, "x", status=2).stderr
    assert f"`{command}` is not a command" in said and COMMANDS[command] in said


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    (folder / "text.txt").write_text("some text\n" * 50)
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "c", folder / "text.txt")
    model = dict(family="llama", num_layers=1, hidden_size=8, num_heads=2, ffn_size=16, vocab_size=257, max_sequence=16)
    run = dict(model=model, data=dict(train=str(folder / "c/train")), optimizer=dict(global_batch=2, steps=1, lr=1e-3), device="cpu", output=str(folder / "run"))
    (folder / "run.yaml").write_text(json.dumps(run))
    trireme("train", folder / "run.yaml")
    return folder


@pytest.mark.parametrize("key", KEYS)
def test_keys(made, key):
    said = trireme("train", made / "run.yaml", "--set", key, status=3).stderr
    assert "is not a key" in said and KEYS[key] in said
    run = json.loads((made / "run.yaml").read_text())
    section, name = ("optimizer", key.split(".")[1]) if "." in key else (None, key)
    (run[section] if section else run)[name.split("=")[0]] = name.split("=")[1]
    (made / "other.yaml").write_text(json.dumps(run))
    answer = KEYS[key].replace("did you mean `data.sequence`?", "did you mean `sequence` under `data:`?").replace("did you mean `data.packing`?", "did you mean `packing` under `data:`?")
    assert answer.replace("did you mean `optimizer.epochs`?", "did you mean `epochs` under `optimizer:`?") in trireme("train", made / "other.yaml", status=3).stderr


@pytest.mark.parametrize("arguments, answer", [
    (["train", "run.yaml", "--report_to", "wandb"], "train: --report_to is not an option; every step is in metrics.jsonl"),
    (["eval", "run", "--tasks", "x"], "eval: --tasks is not an option; questions from a file: trireme eval RUN --choices FILE"),
    (["prepare", "--dataset_text_field", "x"], "`--dataset_text_field` is not an option of prepare; the key of the text is prepare's"),
    (["prepare", "--max_seq_length", "5"], "`--max_seq_length` is not an option of prepare; it is `data.sequence` of a run file"),
    (["prepare", "--packing"], "`--packing` is not an option of prepare; it is `data.packing` of a run file"),
])
def test_options(arguments, answer):
    assert answer in trireme(*arguments, status=2).stderr


def test_lists_of_names_with_commas(made, tmp_path):
    """As a list, in a file and on the command line; prompts and paths are never divided."""
    adapter = dict(rank=2, targets="q_proj, v_proj")
    run = dict(json.loads((made / "run.yaml").read_text()), init=str(made / "run"), adapter=adapter, output=str(tmp_path / "text"))
    (tmp_path / "text.yaml").write_text(json.dumps(run))
    (tmp_path / "list.yaml").write_text(json.dumps(dict(run, adapter=dict(rank=2, targets=["q_proj", "v_proj"]), output=str(tmp_path / "list"))))
    (tmp_path / "option.yaml").write_text(json.dumps(dict(run, adapter=dict(rank=2), output=str(tmp_path / "option"))))
    trireme("train", tmp_path / "text.yaml")
    trireme("train", tmp_path / "list.yaml")
    trireme("train", tmp_path / "option.yaml", "--set", "adapter.targets=q_proj,v_proj", "--set", "adapter.train=*layernorm.weight, model.norm.weight")
    text, listed, option = ((tmp_path / name / "config.yaml").read_text() for name in ("text", "list", "option"))
    assert text.replace(str(tmp_path / "text"), "") == listed.replace(str(tmp_path / "list"), "")
    assert '- {name: q_proj}' in option and '- {name: model.norm.weight}' in option
    said = trireme("train", tmp_path / "list.yaml", "--set", "adapter.targets=q_proj,x_proj", status=3).stderr
    assert "`adapter.targets`: x_proj is not a module of the model" in said
    said = trireme("train", tmp_path / "list.yaml", "--set", "adapter.targets=q_proj,,v_proj", status=3).stderr
    assert "adapter.targets" in said
    frozen = dict(json.loads((made / "run.yaml").read_text()), freeze="model.embed_tokens.*,model.norm.*", output=str(tmp_path / "frozen"),
                  samples=dict(prompts="One, two", tokens=2))
    (tmp_path / "frozen.yaml").write_text(json.dumps(frozen))
    trireme("train", tmp_path / "frozen.yaml")
    assert 'model.norm.*' in (tmp_path / "frozen/config.yaml").read_text()
    assert json.loads((tmp_path / "frozen/samples.jsonl").read_text().splitlines()[0])["prompt"] == "One, two"
    assert "a,b" in trireme("train", made / "run.yaml", "--set", f"data.train={tmp_path}/a,b", status=4).stderr


@pytest.mark.parametrize("name, how", [("x.gguf", "`trireme export` makes a GGUF file of it"), ("x.bin", "from_pretrained(FOLDER)"),
                                       ("x.pt/", "from_pretrained(FOLDER)"), ("X.SAFETENSORS", "its model.safetensors is that file")])
def test_outputs_that_are_named_as_files(made, tmp_path, name, how):
    for arguments in (["export", made / "run"], ["import", made / "run"], ["merge", made / "run", made / "run", "--out"]):
        if arguments[0] == "export" and name == "x.gguf":
            continue  # export writes such a file
        said = trireme(*arguments, f"{tmp_path}/{name}", status=2).stderr
        assert f"{tmp_path}/{name}".rstrip("/") + " is the name of a file, and a Hugging Face folder is written; name a folder" in said.replace("/ is", " is") and how in said
    assert not list(tmp_path.iterdir())
