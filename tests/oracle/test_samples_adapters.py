"""Samples of runs with an adapter, whose factors stay beside the base: the lines are those of `generate --unmerged --json` of the checkpoint, under every layout, and the log-probabilities those of
the merged model."""
import json

import pytest
from parity import trireme
from test_samples import EXPERTS, GPT2, MODEL, PHI3, STEPS, corpus, generated, samples_of, write_run  # noqa: F401 (corpus is a fixture)

OPTIONS = ["--tokens", 20, "--temperature", 1, "--seed", 5, "--threads", 1, "--unmerged"]
EVERYWHERE = dict(rank=3, alpha=4, scaling="rslora", targets=["q_proj", "v_proj", "down_proj", "embed_tokens", "lm_head"], train=["*norm.weight"])
KINDS = {
    "lora": dict(rank=3, alpha=6, dropout=0.2),
    "dora": dict(rank=3, alpha=6, magnitude=True),
    "pissa": dict(rank=3, alpha=6, init="pissa"),
    "nf4": dict(rank=3, alpha=6, quantise="nf4"),
    "nf4 dora": dict(rank=3, alpha=6, quantise="nf4", magnitude=True),
    "everywhere": EVERYWHERE,
}
EXPERT_FACTORS = dict(rank=2, alpha=3, targets=["q_proj", "mlp.experts.gate_up_proj", "mlp.experts.down_proj"])


@pytest.fixture(scope="module")
def bases(tmp_path_factory, corpus):  # noqa: F811
    """Folders of trained bases, by family."""
    out = {}
    for name, model in dict(llama=MODEL, gpt2=GPT2, mixtral=EXPERTS, phi3=PHI3).items():
        folder = tmp_path_factory.mktemp(name)
        trireme("train", write_run(folder, corpus, model=model, checkpoint=dict(every=STEPS)))
        out[name] = folder / "run" / "checkpoints" / f"step-{STEPS:08d}"
    return out


def train(folder, corpus, base, adapter, ranks=1, layout=None, **changes):  # noqa: F811
    settings = dict(model=str(base), init=str(base), adapter=adapter, optimizer=dict(global_batch=4, steps=STEPS, lr=3e-2), layout=dict(micro_batch=1, **(layout or {})))
    trireme("train", write_run(folder, corpus, dict(temperature=1, seed=5), **{**settings, **changes}), *([] if ranks == 1 else ["-n", ranks]))


@pytest.mark.parametrize("family, kind, ranks, layout, changes", [
    *(("llama", kind, 1, {}, dict(precision=precision)) for kind in KINDS for precision in ("fp32", "bf16")),
    ("gpt2", "lora", 1, {}, {}),
    ("gpt2", "nf4 dora", 1, {}, dict(precision="bf16")),
    ("phi3", "pissa", 1, {}, {}),
    ("mixtral", "experts", 1, {}, dict(precision="bf16")),
    ("llama", "lora", 1, {}, dict(checkpoint={"every": 4, "keep": 0, "async": True})),
    ("llama", "dora", 1, {}, dict(optimizer=dict(name="schedule_free", global_batch=4, steps=STEPS, lr=3e-2))),
    ("llama", "everywhere", 2, dict(tensor=2), {}),
    ("llama", "pissa", 2, dict(tensor=2), dict(precision="bf16")),
    ("llama", "nf4", 2, dict(pipeline=2), {}),
    ("llama", "nf4 dora", 2, dict(zero=3), {}),
    ("llama", "nf4 dora", 2, dict(zero=3), dict(checkpoint={"every": 4, "keep": 0, "async": True})),
    ("phi3", "pissa", 2, dict(pipeline=2), {}),
    ("gpt2", "dora", 2, dict(context=2), dict(precision="bf16")),
    ("mixtral", "experts", 2, dict(expert=2), {}),
    ("mixtral", "experts", 2, dict(tensor=2), dict(precision="bf16")),
], ids=str)
def test_as_generate_writes_them(tmp_path, corpus, bases, family, kind, ranks, layout, changes):  # noqa: F811
    train(tmp_path, corpus, bases[family], KINDS.get(kind, EXPERT_FACTORS), ranks, layout, **changes)
    precision = changes.get("precision", "fp32")
    lines = samples_of(tmp_path)
    assert lines == generated(tmp_path, *OPTIONS, "--precision", precision)
    assert all(json.loads(line)["unmerged"] for line in lines.splitlines())


@pytest.mark.parametrize("kind", ["lora", "nf4 dora"])
def test_tensor_ranks(tmp_path, corpus, bases, kind):  # noqa: F811
    asked = dict(prompts=["Once upon", "x"], tokens=12, temperature=0, tensor=2)
    path = write_run(tmp_path, corpus, asked, model=str(bases["llama"]), init=str(bases["llama"]), adapter=KINDS[kind])
    trireme("train", path, "-n", 2)
    assert samples_of(tmp_path) == generated(tmp_path, "--tokens", 12, "--temperature", 0, "--threads", 1, "--unmerged", "--tensor", 2, "-n", 2, prompts=asked["prompts"])


@pytest.mark.parametrize("family, kind", [*(("llama", kind) for kind in KINDS), ("gpt2", "dora"), ("mixtral", "experts")])
def test_unmerged_is_merged(tmp_path, corpus, bases, family, kind):  # noqa: F811
    """The log-probabilities of a merged and an unmerged adapter in fp64."""
    train(tmp_path, corpus, bases[family], KINDS.get(kind, EXPERT_FACTORS), precision="fp64", device="reference")
    folder = tmp_path / "run/checkpoints" / f"step-{STEPS:08d}"
    words = ["generate", folder, "--prompt", "The quick brown", "--tokens", 20, "--temperature", 0, "--json", "--logprobs", 0, "--precision", "fp64", "--device", "reference"]
    merged, unmerged, ranks = (json.loads(trireme(*words, *more).stdout) for more in ([], ["--unmerged"], ["--unmerged", "-n", 2, "--tensor", 2]))
    assert "unmerged" not in merged and unmerged["unmerged"]
    for other in (unmerged, ranks):
        assert other["ids"] == merged["ids"]
        for which in ("prompt", "model"):
            assert other["logprobs"][which] == pytest.approx(merged["logprobs"][which], abs=1e-6 if kind in ("pissa", "nf4", "nf4 dora") else 1e-11)


def test_refused(tmp_path, corpus, bases):  # noqa: F811
    answer = trireme("generate", bases["llama"], "--prompt", "x", "--unmerged", status=2)
    assert "--unmerged is for an adapter" in answer.stderr
    train(tmp_path, corpus, bases["llama"], KINDS["lora"])
    folder = tmp_path / "run/checkpoints" / f"step-{STEPS:08d}"
    settings = json.loads((folder / "adapter_config.json").read_text())
    settings["trireme"]["targets"] = ["q_proj"]
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    answer = trireme("generate", folder, "--prompt", "x", "--unmerged", "--no-verify", status=7)
    assert "leave --unmerged out" in answer.stderr
