"""Compares every family with the models of transformers, which are tiny, in double and eager: loss, logits and every gradient to
1e-10, twenty steps of AdamW, and generation with the cache. Each of the two programs loads the files that the other has saved, in
one file or in several, in any precision."""
import json
import pathlib
import re
import subprocess
import sys

import numpy
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import transformers_models as theirs_of  # noqa: E402
import families  # noqa: E402
import models  # noqa: E402
from families import BATCH, LENGTH, MODELS, PROMPT, STEPS, FamilyWeights, config_of, tensor_of  # noqa: E402
from parity import TRIREME, trireme, yaml_of  # noqa: E402
from test_layouts import run_on  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What to_dict() has beside the model.
NOT_OF_THE_MODEL = ("transformers_version", "dtype", "_name_or_path", "architectures", "id2label", "label2id", "problem_type", "chunk_size_feed_forward",
                    "output_attentions", "output_hidden_states", "return_dict", "is_encoder_decoder", "is_decoder", "use_cache", "classifier_dropout")


@pytest.fixture
def double():
    with theirs_of.in_double():
        yield


def test_names_of_activations():
    """Each transformers name in src/device/activation.h names the same function as models.ACTIVATIONS, with which the tests
    compare ours."""
    rows = re.findall(r'^  X\([A-Z0-9_]+, (\w+), "([\w ]+)"', (ROOT / "src/device/activation.h").read_text(), re.M)
    assert {name for name, _ in rows} == set(models.ACTIVATIONS)
    x = torch.linspace(-12, 12, 2001, dtype=torch.float64)
    for name, words in rows:
        for word in words.split():
            assert (transformers.activations.ACT2FN[word](x) - models.ACTIVATIONS[name](x)).abs().max() < 1e-11, (name, word)


def build(name, dtype=torch.float64, weight=tensor_of, **changed):
    """Their model with the formula's weights; in double to be called, and used, in_double."""
    config = {**config_of(name), **changed}
    keys = transformers.AutoConfig.for_model(attn_implementation="eager", experts_implementation="eager", **config)
    theirs = transformers.AutoModelForCausalLM.from_config(keys, dtype=dtype).eval()
    with torch.no_grad():
        for key, tensor in on_disk(theirs, theirs.state_dict()).items():
            tensor.copy_(torch.tensor(weight(config["model_type"], key, tuple(tensor.shape))))
    return theirs


def on_disk(theirs, tensors):
    """By the names that they have on disk: GPT-NeoX's output projection and experts have others, and tied ones are not there."""
    names = {"lm_head.weight": "embed_out.weight"} if theirs.config.model_type == "gpt_neox" else {}
    tied = ("lm_head.weight",) if theirs.config.tie_word_embeddings else ()
    return {names.get(key, key): tensor for key, tensor in theirs_of.names_on_disk(theirs, tensors).items() if key not in tied}


def loss_of(theirs, ids, labels):
    logits = theirs(torch.tensor(ids), use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), torch.tensor(labels).view(-1), ignore_index=-1)
    return loss, logits


def gradients_of(theirs):
    return {key: numpy.zeros(tuple(p.shape)) if p.grad is None else p.grad.numpy()
            for key, p in on_disk(theirs, dict(theirs.named_parameters())).items()}


def whole_norm(gradients):
    return numpy.linalg.norm(numpy.concatenate([g.reshape(-1) for g in gradients.values()]))


def close(got, expected, least=0.0, limit=1e-10):
    """Compares by norm, relative to the expected array, or to `least` if that is larger: the gradient of the bias of k, which
    does not change the softmax, is only rounding."""
    got, expected = numpy.asarray(got), numpy.asarray(expected)
    return numpy.linalg.norm(got - expected) <= limit * max(numpy.linalg.norm(expected), least)


def ours(folder, theirs):
    """From what they saved: config.json as they write it, and the weights."""
    theirs.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    return FamilyWeights(folder / "ours", config, {n: t.numpy() for n, t in on_disk(theirs, theirs.state_dict()).items()})


@pytest.mark.parametrize("name", MODELS)
def test_gradients(double, tmp_path, name):
    theirs = build(name)
    mine = ours(tmp_path, theirs)
    ids, labels = families.tokens_of(theirs.config.vocab_size, BATCH, LENGTH)
    loss, logits = loss_of(theirs, ids, labels)
    loss.backward()
    expected = gradients_of(theirs)
    got, found = mine.gradients("reference", "fp64", ids, labels, 1)
    assert abs(got["loss"] / loss.item() - 1) <= 1e-10
    assert set(found) == set(expected)
    for parameter, gradient in expected.items():
        assert close(found[parameter], gradient, 1e-3 * whole_norm(expected)), parameter
    for piece in (1, 7):
        last = [min(first + piece, LENGTH) - 1 for first in range(0, LENGTH, piece)]
        assert close(mine.logits("reference", "fp64", piece, ids[0]), logits[0].detach()[last]), piece


def adamw(parameters, decays):
    """As layout_tool has it."""
    return torch.optim.AdamW([dict(params=[t for n, t in parameters.items() if decays[n] == yes], weight_decay=0.1 * yes) for yes in (True, False)],
                             lr=1e-3, betas=(0.9, 0.95), eps=1e-8)


def step_of(theirs, parameters, optimizer, ids, labels):
    """A step; its loss and norm."""
    optimizer.zero_grad()
    loss = loss_of(theirs, ids, labels)[0]
    loss.backward()
    norm = whole_norm(gradients_of(theirs))
    for t in parameters.values():  # clips by the norm itself, while clip_grad_norm_ adds 1e-6 to it
        if t.grad is not None and norm > 1:
            t.grad /= norm
    optimizer.step()
    return loss.item(), norm


@pytest.mark.parametrize("name", MODELS)
def test_twenty_steps(double, tmp_path, name):
    theirs = build(name)
    mine = ours(tmp_path, theirs)
    tokens = numpy.array([families.tokens_of(theirs.config.vocab_size, BATCH, LENGTH, seed) for seed in range(STEPS)])
    answer = run_on(tmp_path, (tmp_path / "ours/model.yaml").read_text(), [{}], tokens, weights=mine.in_order())["one"]
    parameters = on_disk(theirs, dict(theirs.named_parameters()))
    optimizer = adamw(parameters, {p["name"]: p["decay"] for p in mine.table["parameters"]})
    for step, (ids, labels) in enumerate(tokens):
        assert numpy.abs(answer[2][step] / step_of(theirs, parameters, optimizer, ids, labels) - 1).max() <= 1e-10, step
    for parameter, values in mine.of_layouts(answer[1]).items():
        expected = parameters[parameter].detach().numpy()
        if not parameter.endswith("k_proj.bias"):  # AdamW makes steps of rounding
            assert numpy.abs(values - expected).max() <= 1e-8 * max(1.0, numpy.abs(expected).max()), parameter


@pytest.mark.parametrize("name", MODELS)
def test_there_and_back(tmp_path, name):
    """Imports a model that transformers has saved in shards and exports it again: transformers then loads the same weights and
    computes the same logits, and the configuration is the same."""
    theirs = build(name, torch.float32)
    theirs.save_pretrained(tmp_path / "theirs", max_shard_size="9KB")
    assert (tmp_path / "theirs/model.safetensors.index.json").exists()
    trireme("import", tmp_path / "theirs", tmp_path / "ours", "--shard-bytes", 20000)
    trireme("inspect", tmp_path / "ours", "--verify")
    trireme("export", tmp_path / "ours", tmp_path / "back")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "back", dtype=torch.float32, attn_implementation="eager").eval()
    assert type(again) is type(theirs)
    for (key, mine), (other_key, other) in zip(sorted(theirs.state_dict().items()), sorted(again.state_dict().items())):
        assert key == other_key and torch.equal(mine, other), key
    ids = families.tokens_of(theirs.config.vocab_size, BATCH, LENGTH)[0]
    with torch.no_grad():
        assert torch.equal(again(torch.tensor(ids)).logits, theirs(torch.tensor(ids)).logits)
    described = [line for line in families.describe(tmp_path / "theirs").splitlines() if not line.startswith("name:")]
    assert described == [line for line in families.describe(tmp_path / "back").splitlines() if not line.startswith("name:")]
    changed = {key: (getattr(theirs.config, key), getattr(again.config, key, None)) for key in config_of(name)
               if getattr(theirs.config, key) != getattr(again.config, key, None) and key not in ("rope_parameters",)}
    assert not changed


@pytest.mark.parametrize("name", [n for n in MODELS if "," not in n or "falcon" in n])
def test_half_the_bits(tmp_path, name):
    """bf16 in, bf16 out: to the bit."""
    theirs = build(name, torch.bfloat16)
    theirs.save_pretrained(tmp_path / "theirs")
    trireme("import", tmp_path / "theirs", tmp_path / "ours")
    trireme("export", tmp_path / "ours", tmp_path / "back", "--precision", "bf16")
    assert json.loads((tmp_path / "back/config.json").read_text())["torch_dtype"] == "bfloat16"
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "back", dtype=torch.bfloat16)
    for (key, mine), (_, other) in zip(sorted(theirs.state_dict().items()), sorted(again.state_dict().items())):
        assert torch.equal(mine, other), key


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.txt").write_text("".join(f"Line {i}: the rowers pull {i * 7919 % 1000} times.\n" for i in range(500)))
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt")
    return folder / "data"


@pytest.mark.parametrize("name", MODELS)
def test_trained_on_four_ranks(tmp_path, corpus, name):
    """A step under tensor 2 x data 2, where heads allow it, from theirs; they load what comes out and find the loss that we do."""
    theirs = build(name, torch.float32, vocab_size=257)
    theirs.save_pretrained(tmp_path / "theirs")
    heads = theirs.config.num_attention_heads
    layout = dict(micro_batch=1, tensor=2 if heads % 2 == 0 else 1)
    run = dict(model=str(tmp_path / "theirs"), data=dict(train=str(corpus / "train"), sequence=16), layout=layout,
               optimizer=dict(global_batch=4, steps=1, lr=1e-2, decay="constant"), output=str(tmp_path / "run"))
    (tmp_path / "run.yaml").write_text(yaml_of(run))
    trireme("train", tmp_path / "run.yaml", "-n", 4, "--resume", tmp_path / "theirs")
    trireme("export", tmp_path / "run", tmp_path / "trained", "--shard-bytes", 40000)
    trained = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "trained", dtype=torch.float32, attn_implementation="eager").eval()
    moved = {key: float((mine - other).abs().max()) for (key, mine), (_, other) in
             zip(sorted(theirs.state_dict().items()), sorted(trained.state_dict().items())) if not key.endswith(("k_proj.bias", "inv_freq"))}
    assert all(1e-5 < far < 0.1 for far in moved.values()), moved
    got = json.loads(trireme("eval", tmp_path / "run", corpus / "validation", "--sequence", 16, "--batch", 4, "--json").stdout)["loss"]
    assert abs(their_corpus_loss(trained, corpus) / got - 1) < 1e-5


def their_corpus_loss(theirs, corpus, sequence=16):
    """Over windows one behind the other, as `trireme eval` takes them."""
    tokens = torch.tensor(numpy.fromfile(f"{corpus}/validation.bin", dtype=numpy.uint16).astype(numpy.int64))
    labels, total = len(tokens) - 1, 0.0
    with torch.no_grad():
        for first in range(0, labels, sequence):
            end = min(first + sequence, labels)
            logits = theirs(tokens[None, first:end]).logits[0].double()
            total += float(torch.nn.functional.cross_entropy(logits, tokens[first + 1 : end + 1], reduction="sum"))
    return total / labels


@pytest.mark.parametrize("name", MODELS)
def test_generation(tmp_path, corpus, name):
    """Greedy generation with the cache gives the same tokens. With longrope, it ends at the length beyond which transformers
    takes the other list of factors."""
    theirs = build(name, torch.float32, vocab_size=257)
    rope = theirs.config.to_dict().get("rope_parameters") or {}
    count = min(20, rope["original_max_position_embeddings"] - len(PROMPT)) if rope.get("rope_type") == "longrope" else 20
    theirs.save_pretrained(tmp_path / "theirs")
    command = [TRIREME, "generate", tmp_path / "theirs", "--tokenizer", corpus / "tokenizer.json", "--prompt", PROMPT, "--tokens", count,
               "--temperature", 0, "--precision", "fp32", "--device", "reference"]
    done = subprocess.run(list(map(str, command)), capture_output=True)
    assert done.returncode == 0, done.stderr
    ids = torch.tensor([list(PROMPT.encode())])
    expected = theirs.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False, eos_token_id=None, pad_token_id=0)
    tokens = expected[0].tolist()
    tokens = tokens[: tokens.index(256)] if 256 in tokens else tokens  # the end of a text
    assert done.stdout[: len(tokens)] == bytes(tokens) and len(tokens) > len(PROMPT)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *sys.argv[1:]]))
