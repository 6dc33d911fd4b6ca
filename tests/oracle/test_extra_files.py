"""Other files of a Hugging Face folder are copied with the weights: into a checkpoint, through training, and into an export."""
import json

import pytest
from parity import trireme, yaml_of

FILES = {"tokenizer_config.json": '{"chat_template": "{{ messages[0].content }}", "bos_token": "<|endoftext|>"}',
         "special_tokens_map.json": '{"bos_token": "<|endoftext|>"}', "generation_config.json": '{"temperature": 0.7, "eos_token_id": [3, 4]}',
         "chat_template.jinja": "{{ messages[0].content }}\n", "added_tokens.json": "{}",
         "processor_config.json": '{"processor_class": "LlavaProcessor"}', "preprocessor_config.json": '{"image_processor_type": "CLIPImageProcessor"}'}
MISTRAL = dict(model_type="mistral", vocab_size=257, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
               num_key_value_heads=2, head_dim=8, max_position_embeddings=32, rms_norm_eps=1e-5, sliding_window=None)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.txt").write_text("".join(f"Stroke {i} of {i * 7919 % 1000}.\n" for i in range(200)))
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt")
    return folder / "data/train"


def train(folder, corpus, name, *arguments, **keys):
    run = folder / f"{name}.yaml"
    run.write_text(yaml_of(dict(data=dict(train=str(corpus), sequence=16), layout=dict(micro_batch=2), checkpoint=dict(every=1),
                                optimizer=dict(global_batch=2, steps=2, lr=1e-3), output=str(folder / name), **keys)))
    trireme("train", run, *arguments)
    return sorted((folder / name / "checkpoints").iterdir())[-1]


@pytest.fixture(scope="module")
def source(tmp_path_factory, corpus):
    """Makes a folder of a Mistral without a window. Its numbers are those of a Llama."""
    folder = tmp_path_factory.mktemp("source")
    (folder / "config").mkdir()
    (folder / "config/config.json").write_text(json.dumps(MISTRAL))
    train(folder, corpus, "made", model=str(folder / "config"))
    trireme("export", folder / "made", folder / "model")
    config = json.loads((folder / "model/config.json").read_text())
    config.update(bos_token_id=1, eos_token_id=[2, 7], pad_token_id=0)
    (folder / "model/config.json").write_text(json.dumps(config))
    for name, text in FILES.items():
        (folder / "model" / name).write_text(text)
    return folder / "model"


def check(folder):
    config = json.loads((folder / "config.json").read_text())
    assert config["model_type"] == "mistral" and config["architectures"] == ["MistralForCausalLM"]
    assert config["bos_token_id"] == 1 and config["eos_token_id"] == [2, 7] and config["pad_token_id"] == 0
    for name, text in FILES.items():
        assert (folder / name).read_text() == text, name


def test_import_and_export(tmp_path, source):
    trireme("import", source, tmp_path / "checkpoint")
    check(tmp_path / "checkpoint")
    trireme("export", tmp_path / "checkpoint", tmp_path / "out", "--precision", "bf16")
    check(tmp_path / "out")


@pytest.mark.parametrize("begin", ["init", "resume"])
def test_through_training(tmp_path, corpus, source, begin):
    trireme("import", source, tmp_path / "checkpoint")
    if begin == "init":
        newest = train(tmp_path, corpus, "run", model=str(source), init=str(source))
    else:
        newest = train(tmp_path, corpus, "run", "--resume", tmp_path / "checkpoint", model=str(source))
    check(newest)
    # Going on, with the folder that it came from gone: they are the run's own.
    trireme("train", tmp_path / "run.yaml", "--set", "optimizer.steps=3", "--set", f"model={tmp_path}/checkpoint")
    check(sorted((tmp_path / "run/checkpoints").iterdir())[-1])
    trireme("export", tmp_path / "run", tmp_path / "out")
    check(tmp_path / "out")


def test_damage_is_seen(tmp_path, corpus, source):
    newest = train(tmp_path, corpus, "run", model=str(source), init=str(source))
    (newest / "generation_config.json").write_text("{}")
    done = trireme("export", newest, tmp_path / "out", status=4)
    assert "generation_config.json" in done.stderr
