"""Promise 1, one layout at a time: compares the smallest job with each kind of parallelism and each schedule with one rank.

Two steps in fp64 on the reference device, compared as test_layouts.py and test_experts.py compare whole matrices: gradients, losses and
norms within 1e-10, equal bits if the order of sums is the same, memory as planned on every rank. A layout that fails in any case is found
here in a second; those tests find faults of combinations."""
import pytest
from expert_cases import DOTS1, MIXTRAL, OLMOE
from expert_cases import MODELS as EXPERT_MODELS
from test_experts import compare as compare_experts
from test_experts import compare_every_tensor
from test_layouts import GPT2, LLAMA, OLMO2, QWEN3, compare, needs_launcher, ranks_of, run_tool

CASES = {
    "tensor": (GPT2, dict(tensor=2)),
    "sequence-parallel": (LLAMA, dict(tensor=2, sequence_parallel=1)),
    "1f1b": (GPT2, dict(pipeline=2)),
    "gpipe": (LLAMA, dict(pipeline=2, schedule="gpipe")),
    "interleaved": (GPT2, dict(pipeline=2, virtual=2, schedule="interleaved")),
    "zero-bubble": (LLAMA, dict(pipeline=2, schedule="zero-bubble")),
    "data": (GPT2, dict(data=2)),
    "zero1": (LLAMA, dict(data=2, zero=1)),
    "zero2": (GPT2, dict(data=2, zero=2)),
    "zero3": (QWEN3, dict(data=2, zero=3)),
    "full-recompute": (GPT2, dict(recompute="full")),
    "selective-recompute": (LLAMA, dict(recompute="selective")),
    "norms-behind-full-recompute": (OLMO2, dict(tensor=2, recompute="full")),
    "norms-behind-selective-recompute": (OLMO2, dict(tensor=2, recompute="selective")),
    "context-gather": (LLAMA, dict(context=2, exchange="gather")),
    "context-heads": (GPT2, dict(context=2, exchange="heads")),
    "context-ring": (LLAMA, dict(context=2, exchange="ring")),
    "expert": (MIXTRAL, dict(data=2, expert=2)),
    "expert-tensor": (DOTS1, dict(data=2, expert_tensor=2)),
    "expert-of-tensor-ranks": (MIXTRAL, dict(tensor=2, expert=2)),
    "expert-recompute": (DOTS1, dict(recompute="experts")),
    "expert-room": (MIXTRAL, dict(data=2, expert=2, capacity=1.0)),
    "whole-norms": (OLMOE, dict(tensor=2)),
    "masked-documents": (LLAMA, dict(tensor=2, context=2)),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[needs_launcher] if ranks_of(layout) > 1 else []) for name, (_, layout) in CASES.items()])
def test_beside_one_rank(tmp_path, name):
    model, layout = CASES[name]
    layouts = [dict(), layout]
    answers = run_tool(tmp_path, model, layouts, steps=2, batch=4, masked=name.startswith("masked"))
    if model in EXPERT_MODELS.values():
        compare_experts(answers, layouts)
        compare_every_tensor(tmp_path, model, answers, layouts)
    else:
        compare(answers, layouts, 1e-10, 1e-10, exact=True)
