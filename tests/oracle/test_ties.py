"""A tied model whose weights say otherwise, as transformers 5 has it: two tensors that differ are not tied; an output projection alone is the
embedding, too. The same for all commands that open weights. And `init` with some keys of its model said otherwise."""
import json
import struct

import pytest
from parity import trireme, yaml_of

HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"


def read(folder):
    raw = (folder / "model.safetensors").read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + length])
    return {name: (entry["dtype"], entry["shape"], raw[8 + length:][slice(*entry["data_offsets"])]) for name, entry in header.items() if name != "__metadata__"}


def write(folder, tensors, **config):
    folder.mkdir()
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = dict(dtype=dtype, shape=shape, data_offsets=[len(data), len(data) + len(content)])
        data += content
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def changed(tensor):
    """Other values: the elements in the opposite order."""
    dtype, shape, content = tensor
    return dtype, shape, b"".join(content[i:i + 4] for i in range(len(content) - 4, -1, -4))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    (folder / "text.txt").write_text("The ship sails at noon, and nobody on it can swim.\n" * 40)
    trireme("prepare", "--tokenizer", "bytes", "--validation", 0, "--out", folder / "corpus", folder / "text.txt")
    model = dict(family="llama", num_layers=1, hidden_size=32, num_heads=2, ffn_size=64, vocab_size=260, max_sequence=64, tied=True)
    (folder / "run.yaml").write_text(yaml_of(dict(model=model, output=str(folder / "run"), **training(folder, 1))))
    trireme("train", folder / "run.yaml")
    trireme("export", folder / "run", folder / "tied")
    tensors, config = read(folder / "tied"), json.loads((folder / "tied/config.json").read_text())
    assert HEAD not in tensors and config["tie_word_embeddings"]
    both = tensors | {HEAD: changed(tensors[EMBEDDING])}
    write(folder / "both", both, **config)
    write(folder / "untied", both, **config | dict(tie_word_embeddings=False))
    write(folder / "same", tensors | {HEAD: tensors[EMBEDDING]}, **config)
    write(folder / "head", {HEAD if name == EMBEDDING else name: tensor for name, tensor in tensors.items()}, **config)
    return folder


def training(folder, steps):
    return dict(data=dict(train=str(folder / "corpus/train"), sequence=24), optimizer=dict(global_batch=8, steps=steps, lr=1e-3), layout=dict(micro_batch=8), threads=1)


def loss(folder, made, *words):
    done = trireme("eval", folder, made / "corpus/train", "--json", *words)
    return json.loads(done.stdout)["loss"], done.stderr


def said(folder):
    return f"{folder}: `{HEAD}` and `{EMBEDDING}` differ, so they are not tied, although config.json says so"


def test_eval(made):
    for folder, like in [("both", "untied"), ("same", "tied"), ("head", "tied")]:
        value, lines = loss(made / folder, made)
        assert value == loss(made / like, made)[0]
        assert lines.count("are not tied") == (folder == "both") and (folder != "both" or said(made / "both") in lines)
    assert abs(loss(made / "both", made)[0] - loss(made / "tied", made)[0]) > 1e-3


@pytest.mark.parametrize("folder, like", [("both", "untied"), ("same", "tied"), ("head", "tied")])
def test_folders_that_are_written(made, tmp_path, folder, like):
    for words in (("export",), ("import",), ("merge", "--out")):
        name = words[0]
        given = [made / folder, tmp_path / name] if name != "merge" else [tmp_path / name, made / folder, made / folder]
        done = trireme(*words, *given)
        assert ("are not tied" in done.stderr) == (folder == "both"), done.stderr
        assert json.loads((tmp_path / name / "config.json").read_text())["tie_word_embeddings"] == (like == "tied")
        # A merge of a model with itself is that model.
        assert {key: value[2] for key, value in read(tmp_path / name).items()} == {key: value[2] for key, value in read(made / like).items()}
    assert loss(tmp_path / "export", made)[0] == loss(made / like, made)[0]


def train(folder, made, *words, status=0, **run):
    (folder / "run.yaml").write_text(yaml_of(dict(output=str(folder / "run"), **training(made, 3)) | run))
    return trireme("train", folder / "run.yaml", *words, status=status)


def losses(folder):
    return [json.loads(line)["loss"] for line in (folder / "run/metrics.jsonl").read_text().splitlines() if '"loss"' in line]


@pytest.mark.parametrize("folder, like", [("both", "untied"), ("same", "tied"), ("head", "tied")])
def test_init(made, tmp_path, folder, like):
    """The same steps as of the model that says what it is; named as `model:`, too, it is the same model."""
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    done = train(tmp_path / "a", made, init=str(made / folder))
    assert done.stderr.count("are not tied") == (folder == "both"), done.stderr
    train(tmp_path / "b", made, init=str(made / like))
    train(tmp_path / "c", made, init=str(made / folder), model=str(made / folder))
    assert losses(tmp_path / "a") == losses(tmp_path / "b") == losses(tmp_path / "c") and len(losses(tmp_path / "a")) >= 3
    trireme("export", tmp_path / "a/run", tmp_path / "out")
    assert json.loads((tmp_path / "out/config.json").read_text())["tie_word_embeddings"] == (like == "tied")
    done = train(tmp_path / "a", made, "--set", "optimizer.steps=4", init=str(made / folder))
    assert len(losses(tmp_path / "a")) >= 4


def test_tied_all_the_same(made, tmp_path):
    done = train(tmp_path, made, init=str(made / "both"), model=dict(tied=True))
    assert "has an untied output projection; it is left out, since `model.tied` is true" in done.stderr
    (tmp_path / "other").mkdir()
    train(tmp_path / "other", made, init=str(made / "tied"))
    assert losses(tmp_path) == losses(tmp_path / "other")


def test_an_adapter(made, tmp_path):
    """Its base is the untied model, when it is trained and when it is used."""
    for folder in ("both", "untied"):
        (tmp_path / folder).mkdir()
        train(tmp_path / folder, made, init=str(made / folder), adapter=dict(rank=2))
    assert losses(tmp_path / "both") == losses(tmp_path / "untied")
    assert loss(tmp_path / "both/run", made)[0] == loss(tmp_path / "untied/run", made)[0]


def test_keys_over_those_of_init(made, tmp_path):
    """`--set model.KEY` or some keys in the file change the folder's model; one that does not fit its weights is refused."""
    allowed = dict(allow_change="model.rope_theta")
    for name, words, run in [("a", ["--set", "model.rope_theta=5000"], allowed), ("b", [], dict(model=dict(rope_theta=5000)) | allowed), ("c", [], {}),
                             ("e", ["--set", "model.max_sequence=32"], {})]:
        (tmp_path / name).mkdir()
        train(tmp_path / name, made, *words, init=str(made / "untied"), **run)
    assert losses(tmp_path / "a") == losses(tmp_path / "b") != losses(tmp_path / "c") == losses(tmp_path / "e")
    trireme("export", tmp_path / "e/run", tmp_path / "hf")
    config = json.loads((tmp_path / "hf/config.json").read_text())
    assert config["max_position_embeddings"] == 32 and config["num_attention_heads"] == 2
    for run, words in [(dict(model=dict(rope_theta=5000)), "model.rope_theta is 10000.0 there and 5000.0 in this run"),
                       (dict(model=dict(num_layers=2)), "model.num_layers is 1 there and 2 in this run; its weights do not fit such a model"),
                       (dict(model=dict(num_layer=2)), "`num_layer` is not a key of `model:` at line")]:
        assert words in train(tmp_path, made, init=str(made / "untied"), status=3, **run).stderr
