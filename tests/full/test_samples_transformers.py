"""Compares the texts that a run samples from its memory with greedy texts that transformers generates with the weights of the same step, in double, under several
layouts, for five families, with adapters and with a base in 4 bits. The log-probabilities of these texts' tokens agree to 1e-10, and to 1e-5 with a merged
adapter, whose export is in fp32."""
import contextlib
import json

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import transformers_models as theirs_of  # noqa: E402
from parity import trireme  # noqa: E402
from test_samples_adapters import EXPERT_FACTORS, KINDS  # noqa: E402
from test_samples import EXPERTS, GPT2, MODEL, NEOX, PHI3, corpus, samples_of, write_run  # noqa: E402, F401 (corpus is a fixture)

FAMILIES = dict(llama=MODEL, gpt2=GPT2, gpt_neox=NEOX, phi3=PHI3, mixtral=EXPERTS)
LAYOUTS = {"whole": (1, {}), "tensor, ZeRO 3": (4, dict(tensor=2, data=2, zero=3)), "pipeline": (2, dict(pipeline=2)), "context": (2, dict(context=2)),
           "experts": (2, dict(expert=2, data=2))}
PROMPTS, TOKENS = ["The planner", "a"], 40
RUN = dict(precision="fp64", device="reference", optimizer=dict(global_batch=4, steps=3, lr=1e-2))


def check(folder, exported, within=1e-10):
    """The samples of step 3, beside transformers with the weights in `exported`."""
    lines = [json.loads(line) for line in samples_of(folder).splitlines()]
    assert [(line["step"], line["prompt"]) for line in lines] == [(3, prompt) for prompt in PROMPTS]
    with theirs_of.in_double() if within == 1e-10 else contextlib.nullcontext():
        model = transformers.AutoModelForCausalLM.from_pretrained(exported, dtype=torch.float64, attn_implementation="eager", experts_implementation="eager").eval()
        for line in lines:
            ids = list(line["prompt"].encode())
            for _ in range(line["tokens"]):
                ids.append(int(model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
            assert bytes(i for i in ids[len(line["prompt"]):] if i < 256).decode(errors="replace") == line["text"]
            words = ["generate", folder / "run", "--prompt", line["prompt"], "--tokens", TOKENS, "--temperature", 0, "--json", "--logprobs", 0]
            ours = json.loads(trireme(*words, "--precision", "fp64", "--device", "reference", *(["--unmerged"] if line.get("unmerged") else [])).stdout)
            assert ours["text"] == line["text"]
            theirs = torch.log_softmax(model(torch.tensor([ids]), use_cache=False).logits[0], -1)[torch.arange(len(ids) - 1), torch.tensor(ids[1:])]
            assert ours["logprobs"]["model"] == pytest.approx(theirs[len(line["prompt"]) - 1:].tolist(), abs=within)


@pytest.mark.parametrize("family, layout", [(family, layout) for family in FAMILIES for layout in LAYOUTS if family == "mixtral" or layout != "experts"])
def test_layouts(tmp_path, corpus, family, layout):  # noqa: F811
    ranks, axes = LAYOUTS[layout]
    samples = dict(prompts=PROMPTS, tokens=TOKENS)
    trireme("train", write_run(tmp_path, corpus, samples, model=FAMILIES[family], layout=dict(micro_batch=1, **axes), **RUN), "-n", ranks)
    check(tmp_path, tmp_path / "run/checkpoints/step-00000003")


@pytest.mark.parametrize("layout", ["tensor, ZeRO 3", "pipeline", "context"])
@pytest.mark.parametrize("family, kind", [*(("llama", kind) for kind in ("lora", "dora", "nf4", "nf4 dora")), ("gpt2", "dora"), ("mixtral", "experts")])
def test_adapters(tmp_path, corpus, family, kind, layout):  # noqa: F811
    (tmp_path / "base").mkdir()
    trireme("train", write_run(tmp_path / "base", corpus, model=FAMILIES[family], **RUN))
    base = str(tmp_path / "base/run/checkpoints/step-00000003")
    ranks, axes = LAYOUTS[layout]
    adapter = KINDS.get(kind, EXPERT_FACTORS)
    run = dict(RUN, model=base, init=base, adapter=adapter, layout=dict(micro_batch=1, **axes))
    trireme("train", write_run(tmp_path, corpus, dict(prompts=PROMPTS, tokens=TOKENS), **run), "-n", ranks)
    trireme("export", tmp_path / "run", tmp_path / "merged", "--merge")
    check(tmp_path, tmp_path / "merged", within=1e-5)
