"""Compares families with experts with the models of transformers, which are tiny, in double and eager. First the plain PyTorch
models of tests/oracle/models.py are compared, since all other tests of experts use them; then our program: loss, logits and every
gradient to 1e-10, twenty steps. Each of the two programs loads the files that the other has saved."""
import json
import os

import numpy
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import transformers_models as theirs_of  # noqa: E402
import expert_models  # noqa: E402
import models  # noqa: E402
from parity import Weights, tool, trireme, yaml_of  # noqa: E402

# The grouped products of PyTorch need rows of a multiple of 16 bytes, so they are not used.
EAGER = dict(attn_implementation="eager", experts_implementation="eager")
SMALL = dict(num_layers=3, hidden_size=24, num_heads=4, num_kv_heads=2, vocab_size=61, max_sequence=32)
EXPERTS = dict(num_experts=6, experts_per_token=2, expert_ffn_size=14)
# Theirs cannot be made without a shared expert.
DOTS1 = dict(family="dots1", **SMALL, ffn_size=30, shared_experts=1)
CASES = {
    "mixtral": dict(family="mixtral", **SMALL, **EXPERTS),
    "mixtral, one of three, tied": dict(family="mixtral", **SMALL, **{**EXPERTS, "num_experts": 3, "experts_per_token": 1}, tied=True),
    "mixtral, all of them": dict(family="mixtral", **SMALL, **{**EXPERTS, "experts_per_token": 6}),
    "qwen3": dict(family="qwen3", **SMALL, ffn_size=30, head_dim=10),
    "qwen3_moe": dict(family="qwen3_moe", **SMALL, **EXPERTS, ffn_size=30, head_dim=10),
    "qwen3_moe, not normalised": dict(family="qwen3_moe", **SMALL, **{**EXPERTS, "experts_per_token": 3}, ffn_size=30, router_normalised=False),
    "qwen3_moe, first dense": dict(family="qwen3_moe", **SMALL, **EXPERTS, ffn_size=30, dense_layers=2),
    "olmoe": dict(family="olmoe", **SMALL, **EXPERTS),
    "olmoe, normalised": dict(family="olmoe", **{**SMALL, "num_kv_heads": 4}, **EXPERTS, router_normalised=True),
    "dots1": {**DOTS1, **EXPERTS, "shared_experts": 2, "dense_layers": 1, "router_scale": 2.5},
    "dots1, groups": {**DOTS1, **EXPERTS, "num_experts": 12, "experts_per_token": 4, "router_groups": 4, "router_kept_groups": 2,
                      "router_normalised": True, "router_scale": 1.5},
    "dots1, not normalised": {**DOTS1, **EXPERTS, "router_groups": 3, "router_kept_groups": 2, "router_normalised": False},
}


def tokens_of(model, batch=3, length=19, seed=1):
    chance = numpy.random.default_rng(seed)
    ids, labels = torch.tensor(chance.integers(0, model["vocab_size"], (2, batch, length)))
    labels[torch.tensor(chance.random((batch, length)) < 0.2)] = -1
    return ids, labels


def their_losses(theirs, ids, labels):
    logits = theirs(ids).logits
    return torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1), ignore_index=-1), logits


def close(a, b, scale=0.0):
    """Compares by norm, relative to the expected tensor, or to `scale` if that is larger: if a token has one
    expert, its normalised weight is always 1, so the gradient of the router is only rounding."""
    a, b = a.detach(), b.detach()
    return float((a - b).norm()) <= 1e-10 * max(float(b.norm()), scale)


@pytest.fixture
def double():
    with theirs_of.in_double():
        yield


def make(model, seed=0):
    torch.manual_seed(seed)
    theirs = theirs_of.build(model)
    theirs_of.spread(theirs, numpy.random.default_rng(seed))
    weights = {name: t.detach().clone().requires_grad_(expert_models.is_trained(name)) for name, t in theirs_of.names_on_disk(theirs).items()}
    if model.get("tied"):
        weights.pop("lm_head.weight", None)
    return theirs, weights


@pytest.mark.parametrize("name", CASES)
def test_plain_models(double, name):
    model = CASES[name]
    theirs, weights = make(model)
    ids, labels = tokens_of(model)
    loss, logits = their_losses(theirs, ids, labels)
    loss.backward()
    seen = []
    mine, added = models.losses(model, weights, ids, labels, watch=seen)
    mine.backward()
    assert added == 0 and abs(mine.item() / loss.item() - 1) <= 1e-12
    assert close(models.logits(model, weights, ids), logits)
    expected = theirs_of.gradients_of(theirs)
    assert {n for n in weights if weights[n].requires_grad} == set(expected) - ({"lm_head.weight"} if model.get("tied") else set())
    whole = float(torch.cat([g.reshape(-1) for g in expected.values()]).norm())
    for parameter, t in weights.items():
        if t.requires_grad:
            assert close(t.grad, expected[parameter], 1e-3 * whole), parameter
    assert len(seen) == (0 if model["family"] == "qwen3" else model["num_layers"] - model.get("dense_layers", 0))
    assert all(one["experts"].unique().numel() > 1 for one in seen)


@pytest.mark.parametrize("name", ["mixtral", "qwen3_moe", "olmoe", "dots1, groups"])
def test_plain_models_for_twenty_steps(double, name):
    model = CASES[name]
    theirs, weights = make(model)
    trained = [t for t in weights.values() if t.requires_grad]
    one, other = torch.optim.AdamW(theirs.parameters(), lr=3e-3), torch.optim.AdamW(trained, lr=3e-3)
    for step in range(20):
        ids, labels = tokens_of(model, seed=step)
        one.zero_grad(), other.zero_grad()
        loss, mine = their_losses(theirs, ids, labels)[0], models.loss(model, weights, ids, labels)
        loss.backward(), mine.backward()
        assert abs(mine.item() / loss.item() - 1) <= 1e-10, step
        one.step(), other.step()


@pytest.mark.parametrize("name", ["mixtral", "qwen3_moe", "olmoe", "qwen3_moe, not normalised"])
def test_balance_of_one_sequence_is_theirs(double, name):
    """load_balancing_loss_func takes all layers and all tokens together, and it sums over the k experts of a token, while ours
    takes their mean. So with one layer and one sequence it is k times as large as ours."""
    model = {**CASES[name], "num_layers": 1, "balance": "sequence", "balance_rate": 0.7}
    module = __import__(f"transformers.models.{model['family']}.modeling_{model['family']}", fromlist=["load_balancing_loss_func"])
    theirs, weights = make(model)
    ids, labels = tokens_of(model, batch=1)
    seen = []
    added = models.losses(model, weights, ids, labels, watch=seen)[1]
    expected = module.load_balancing_loss_func((seen[0]["logits"],), model["num_experts"], model["experts_per_token"])
    assert abs(added.item() / (0.7 * float(expected) / model["experts_per_token"]) - 1) <= 1e-12


# ---- ours ------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", CASES)
def test_ours(double, tmp_path, name):
    """On the reference device, in double."""
    model = CASES[name]
    theirs, weights = make(model)
    mine = Weights(tmp_path, model)
    mine.replace({name: t.detach().numpy() for name, t in weights.items()})
    ids, labels = tokens_of(model)
    loss, logits = their_losses(theirs, ids, labels)
    loss.backward()
    got, found = mine.gradients("reference", "fp64", ids.numpy(), labels.numpy(), 1)
    assert abs(got["loss"] / loss.item() - 1) <= 1e-10 and got["router_loss"] == 0
    expected = theirs_of.gradients_of(theirs)
    whole = float(torch.cat([g.reshape(-1) for g in expected.values()]).norm())
    for parameter, gradient in expected.items():
        if parameter in found:
            assert close(torch.tensor(found[parameter]), gradient, 1e-3 * whole), parameter
    assert set(expected) - set(found) <= {"lm_head.weight"}
    tokens, out = tmp_path / "ids.bin", tmp_path / "logits.bin"
    ids[0].numpy().astype(numpy.int32).tofile(tokens)
    tool("logits", mine.model_file, "reference", "fp64", 1, ids.shape[1], mine.file, tokens, out)
    assert close(torch.tensor(numpy.fromfile(out).reshape(ids.shape[1], -1)), logits[0])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.txt").write_text("".join(f"Line {i}: the rowers pull {i * 7919 % 1000} times.\n" for i in range(2000)))
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt")
    return folder / "data"


@pytest.mark.parametrize("name", ["mixtral", "qwen3", "qwen3_moe, first dense", "olmoe", "dots1, groups"])
def test_import_train_export(tmp_path, corpus, name):
    """Theirs comes in, goes out as it came, trains a step on four ranks, and they load what comes out."""
    model = {**CASES[name], "vocab_size": 257}
    torch.manual_seed(3)
    theirs = getattr(transformers, theirs_of.CLASSES[model["family"]] + "ForCausalLM")(theirs_of.config_of(model)).eval()
    theirs_of.spread(theirs, numpy.random.default_rng(3))
    theirs.save_pretrained(tmp_path / "theirs", max_shard_size="60KB")
    trireme("import", tmp_path / "theirs", tmp_path / "ours", "--shard-bytes", 50000)
    trireme("inspect", tmp_path / "ours", "--verify")
    trireme("export", tmp_path / "ours", tmp_path / "back")
    tokens = torch.arange(30)[None] * 5 % 257
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "back", dtype=torch.float32, **EAGER).eval()
    with torch.no_grad():
        expected = theirs(tokens).logits
        assert (again(tokens).logits - expected).abs().max() < 1e-5
    for (key, mine), (_, other) in zip(sorted(theirs.state_dict().items()), sorted(again.state_dict().items())):
        assert torch.equal(mine, other), key
    experts = dict(expert=2) if "num_experts" in model else {}
    balance = dict(balance="bias", balance_rate=0.01) if model["family"] == "dots1" else {}
    run = dict(model={**model, **balance}, data=dict(train=str(corpus / "train"), sequence=16), layout=dict(micro_batch=1, tensor=2, **experts),
               optimizer=dict(global_batch=4, steps=1, lr=1e-2, decay="constant"), output=str(tmp_path / "run"))
    (tmp_path / "run.yaml").write_text(yaml_of(run))
    trireme("train", tmp_path / "run.yaml", "-n", 4, "--resume", tmp_path / "ours")
    first = json.loads((tmp_path / "run/metrics.jsonl").read_text().splitlines()[0])["loss"]
    trireme("export", tmp_path / "run", tmp_path / "trained", "--shard-bytes", 40000)
    trained = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "trained", dtype=torch.float32, **EAGER).eval()
    assert 3 < first < 30
    for (key, mine), (_, other) in zip(sorted(theirs.state_dict().items()), sorted(trained.state_dict().items())):
        assert "inv_freq" in key or 1e-5 < (mine - other).abs().max() < 0.1, key
    ours = json.loads(trireme("eval", tmp_path / "run", corpus / "validation", "--sequence", 16, "--batch", 4, "--json").stdout)["loss"]
    assert abs(their_corpus_loss(trained, corpus) / ours - 1) < 1e-5


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


@pytest.mark.parametrize("name", ["mixtral", "dots1, groups"])
def test_generation(tmp_path, corpus, name):
    """Through the cache: the same tokens, each the most likely."""
    model = {**CASES[name], "vocab_size": 257, "max_sequence": 64}
    run = dict(model=model, data=dict(train=str(corpus / "train"), sequence=16), optimizer=dict(global_batch=4, steps=40, lr=1e-2), device="reference",
               layout=dict(micro_batch=2), output=str(tmp_path / "run"))
    (tmp_path / "run.yaml").write_text(yaml_of(run))
    trireme("train", tmp_path / "run.yaml")
    checkpoint = tmp_path / "run/checkpoints/step-00000040"
    ours = trireme("generate", checkpoint, "--prompt", "Line 7: the", "--tokens", 20, "--temperature", 0, "--precision", "fp32", "--device", "reference").stdout
    theirs = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32, **EAGER).eval()
    ids = torch.tensor([list(b"Line 7: the")])
    text = bytes(theirs.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=20, do_sample=False, eos_token_id=None, pad_token_id=0)[0].tolist())
    assert ours.strip("\n") == text.decode().strip("\n")


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *os.sys.argv[1:]]))
