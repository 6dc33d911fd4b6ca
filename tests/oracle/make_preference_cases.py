"""Makes preference_cases.json: results of TRL's preference trainers on the tiny Llamas of preference_models.py, in double.

make_preference_cases.py OUT, in an environment with trl 1.16.0 and PyTorch.

The trainers' own functions compute every loss (DPOTrainer._compute_loss, KTOTrainer._compute_loss, and get_batch_loss_metrics of the
experimental CPOTrainer and ORPOTrainer). Two things are changed: computations in single run in double (transformers_models.in_double), and
a plain softmax replaces their fused head, which also computes in single.
"""
import json
import logging
import os
import sys
import tempfile
import types
import warnings

os.environ.update(CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1", TOKENIZERS_PARALLELISM="false")
warnings.filterwarnings("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "full"), HERE]
for name in ("TRIREME", "TRIREME_TOOLS"):
    os.environ.setdefault(name, "")

import datasets  # noqa: E402
import preference_models as pm  # noqa: E402
import tokenizers  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import transformers_models  # noqa: E402
import trl  # noqa: E402
from trl.experimental.cpo import CPOConfig, CPOTrainer  # noqa: E402
from trl.experimental.orpo import ORPOConfig, ORPOTrainer  # noqa: E402

logging.disable(logging.WARNING)
datasets.disable_progress_bars()
torch.set_num_threads(1)
TRAINERS = {"DPO": (trl.DPOTrainer, trl.DPOConfig), "KTO": (trl.KTOTrainer, trl.KTOConfig), "CPO": (CPOTrainer, CPOConfig),
            "ORPO": (ORPOTrainer, ORPOConfig)}
BETAS = (0.05, 0.3, 1.0)


# ---- cases -----------------------------------------------------------------------------------------------------------

def case(trainer, loss, *, policy="one", cross_entropy=None, reference=True, desirable=None, **arguments):
    """Returns a case. `loss`: our name of the loss, or None. cross_entropy: [weight, "answers" or "texts" of the chosen]."""
    return dict(trainer=trainer, arguments=arguments, loss=loss, reference=reference, policy=policy, cross_entropy=cross_entropy,
                **({} if desirable is None else dict(desirable=desirable)))


def asked():
    theirs = dict(dpo="sigmoid", sigmoid_norm="sigmoid_norm", ipo="ipo", hinge="hinge", robust="robust", apo_zero="apo_zero", apo_down="apo_down",
                  exo_pair="exo_pair", nca_pair="nca_pair", bco_pair="bco_pair", sppo_hard="sppo_hard", discopop="discopop")
    smoothed = dict(robust=0.1, exo_pair=1e-3)
    for beta in BETAS:
        for ours, name in theirs.items():
            more = dict(label_smoothing=smoothed[ours]) if ours in smoothed else {}
            yield case("DPO", ours, loss_type=[name], beta=beta, **more)
        for alpha in (0.0, 0.5):
            yield case("CPO", "cpo", reference=False, loss_type="sigmoid", beta=beta, cpo_alpha=alpha, cross_entropy=[alpha, "answers"])
            yield case("CPO", "simpo", reference=False, loss_type="simpo", beta=beta, simpo_gamma=0.7, cpo_alpha=alpha, cross_entropy=[alpha, "answers"])
        yield case("CPO", "hinge", reference=False, loss_type="hinge", beta=beta, cpo_alpha=0.0)
        yield case("CPO", "ipo", reference=False, loss_type="ipo", beta=beta, cpo_alpha=0.0)
        yield case("ORPO", "orpo", reference=False, beta=beta, cross_entropy=[1.0, "texts"])
        for policy in pm.MODELS:
            yield case("KTO", "kto", loss_type="kto", beta=beta, policy=policy, desirable=pm.DESIRABLE)
        yield case("KTO", "kto", loss_type="kto", beta=beta, desirable_weight=0.8, undesirable_weight=1.7, desirable=pm.DESIRABLE)
        yield case("KTO", "apo_zero_unpaired", loss_type="apo_zero_unpaired", beta=beta, desirable_weight=0.8, undesirable_weight=1.7,
                   desirable=pm.DESIRABLE)
    # The other way about, by which margins have the other sign; what smoothing changes; sums of several; nothing undesirable.
    for ours, name in theirs.items():
        yield case("DPO", ours, policy="two", loss_type=[name], beta=0.3, **({} if ours not in smoothed else dict(label_smoothing=0.3)))
    yield case("DPO", "dpo", loss_type=["sigmoid"], beta=0.3, label_smoothing=0.2)
    yield case("DPO", "discopop", loss_type=["discopop"], beta=0.3, discopop_tau=0.5)
    yield case("CPO", "cpo", reference=False, loss_type="sigmoid", beta=0.3, cpo_alpha=1.0, label_smoothing=0.2, cross_entropy=[1.0, "answers"])
    yield case("CPO", "simpo", policy="two", reference=False, loss_type="simpo", beta=2.0, simpo_gamma=1.0, cpo_alpha=0.0, label_smoothing=0.1)
    yield case("ORPO", "orpo", policy="two", reference=False, beta=0.1, cross_entropy=[1.0, "texts"])
    yield case("DPO", "dpo", loss_type=["sigmoid", "sft"], loss_weights=[1.0, 0.25], beta=0.3, cross_entropy=[0.25, "answers"])
    yield case("DPO", None, loss_type=["sft"], beta=0.3, cross_entropy=[1.0, "answers"])
    yield case("KTO", "kto", loss_type="kto", beta=0.3, desirable=(True,) * len(pm.DESIRABLE))


# ---- how TRL is called -----------------------------------------------------------------------------------------------

class Plain(torch.nn.Module):
    """A model with what TRL's fused head returns, in the model's own type."""
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, labels=None, fused_lm_head=False, **_):
        assert fused_lm_head
        logits = self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits[:, :-1]
        labels = labels[:, 1:]
        counted, each = labels != -100, torch.log_softmax(logits, -1)
        chosen = each.gather(-1, labels.clamp(min=0)[..., None]).squeeze(-1)
        return types.SimpleNamespace(log_probs=torch.where(counted, chosen, 0.0), entropy=-(each.exp() * each).sum(-1),
                                     mean_logits=logits.mean(-1), is_top1=logits.argmax(-1) == labels, loss=None)


def llama_of(model):
    keys = {key: value for key, value in pm.CONFIG.items() if key not in ("architectures", "model_type", "rope_theta")}
    config = transformers.LlamaConfig(attn_implementation="eager", rope_parameters=dict(rope_type="default", rope_theta=pm.CONFIG["rope_theta"]), **keys)
    theirs = transformers.LlamaForCausalLM(config).double()
    tensors = pm.tensors_of(model)
    assert {key: tuple(tensor.shape) for key, tensor in theirs.named_parameters()} == {key: tensor.shape for key, tensor in tensors.items()}
    with torch.no_grad():
        for key, tensor in theirs.named_parameters():
            tensor.copy_(torch.tensor(tensors[key]))
    return theirs


def tokenizer_of():
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({str(i): i for i in range(pm.CONFIG["vocab_size"])}, unk_token="0"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="0", bos_token="2", eos_token="1")


def trainer_of(trainer, arguments, policy, reference, folder):
    kind, config = TRAINERS[trainer]
    line = dict(prompt=["3 4"] * 2, chosen=["5 6"] * 2, rejected=["7"] * 2)
    if trainer == "KTO":
        line = dict(prompt=["3 4"] * 2, completion=["5 6"] * 2, label=[True, False])
    references = dict(ref_model=reference) if trainer in ("DPO", "KTO") else {}
    made = kind(model=policy, args=config(output_dir=folder, use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[],
                                          per_device_train_batch_size=2, disable_tqdm=True, **arguments),
                train_dataset=datasets.Dataset.from_dict(line), processing_class=tokenizer_of(), **references)
    policy.train()
    assert all(p.dtype == torch.float64 for p in policy.parameters())
    return made


def padded(texts, prefix=""):
    """ids, which are there, which are the completion's; filled up behind."""
    longest = max(len(prompt + completion) for prompt, completion in texts)
    def rows(values):
        return torch.tensor([row + [0] * (longest - len(row)) for row in values])
    return {prefix + "input_ids": rows([p + c for p, c in texts]), prefix + "attention_mask": rows([[1] * len(p + c) for p, c in texts]),
            prefix + "completion_mask": rows([[0] * len(p) + [1] * len(c) for p, c in texts])}


def mismatched(lines):
    """Completion i behind the prompt of line i + 1, the last one behind the first."""
    return [(lines[(i + 1) % len(lines)][0], completion) for i, (_, completion) in enumerate(lines)]


def loss_of(trainer, made, policy, reference):
    """Loss and metrics."""
    pairs = pm.texts_of("pairs")
    chosen, rejected = [(p, c) for p, c, _ in pairs], [(p, r) for p, _, r in pairs]
    if trainer == "DPO":
        made.ref_model = Plain(reference)
        loss = made._compute_loss(Plain(policy), padded(chosen + rejected), False)
        return loss, {key: values[-1] for key, values in made._metrics["train"].items()}
    batch = {}
    for prefix, texts in (("chosen_", chosen), ("rejected_", rejected)):
        rows = padded(texts, prefix)
        answers = rows.pop(prefix + "completion_mask")
        batch.update(rows, **{prefix + "labels": rows[prefix + "input_ids"].masked_fill(answers == 0, -100)})
    return made.get_batch_loss_metrics(policy, batch, "train")


def kto_loss_of(made, policy, reference, desirable):
    lines = pm.texts_of("completions")
    made.ref_model = Plain(reference)
    # Theirs are in the order of prompts.
    others = mismatched(lines)
    others = others[-1:] + others[:-1]
    batch = dict(padded(lines), **padded(others, "KL_"), label=torch.tensor(desirable))
    loss = made._compute_loss(Plain(policy), batch, False)
    return loss, {key: values[-1] for key, values in made._metrics["train"].items()}


def result_of(asked_case, folder):
    """Loss, metrics, and every parameter's gradient."""
    policy, reference = (llama_of(m) for m in (pm.MODELS if asked_case["policy"] == pm.MODELS[0] else pm.MODELS[::-1]))
    made = trainer_of(asked_case["trainer"], asked_case["arguments"], policy, reference, folder)
    if asked_case["trainer"] == "KTO":
        loss, metrics = kto_loss_of(made, policy, reference, asked_case["desirable"])
    else:
        loss, metrics = loss_of(asked_case["trainer"], made, policy, reference)
    policy.zero_grad()
    loss.backward()
    return loss.item(), metrics, {name: tensor.grad.numpy() for name, tensor in policy.named_parameters()}


def found_of(asked_case, folder):
    loss, metrics, gradients = result_of(asked_case, folder)
    said = [[float((g * g).sum()), *(float((g * pm.probe_of(n, name, g.shape)).sum()) for n in range(pm.PROBES))]
            for name, g in ((name, gradients[name]) for name in pm.names())]
    return dict(asked_case, value=loss, metrics={key: float(value) for key, value in metrics.items() if key != "num_tokens"}, gradients=said)


# ---- the file --------------------------------------------------------------------------------------------------------

ABOUT = ("by tests/oracle/make_preference_cases.py with trl {trl}, transformers {transformers}, torch {torch}; tensors, token ids and probes follow from "
         "tests/oracle/families.py: tensor_of('llama', MODEL + ' ' + NAME, SHAPE), probe_of(NUMBER + ' ' + NAME, COUNT); a gradient is [sum of squares, "
         "products with the probes 0, 1, 2] in the order of `parameters`; sums are [of the answer's log probabilities, of the whole text's but its first "
         "token]; `mismatched` has completion i behind the prompt of line i + 1")


def sums_of(theirs, texts):
    """[text, 2] as transformers finds them, one text at a time."""
    found = []
    for prompt, completion in texts:
        ids = torch.tensor([prompt + completion])
        each = torch.log_softmax(theirs(input_ids=ids, use_cache=False).logits[0, :-1], -1).gather(-1, ids[0, 1:, None]).squeeze(-1)
        found.append(torch.stack([each[len(prompt) - 1:].sum(), each.sum()]))
    return torch.stack(found)


def main():
    with transformers_models.in_double(), tempfile.TemporaryDirectory() as folder:
        cases = [found_of(one, folder) for one in asked()]
        pairs, lines = pm.texts_of("pairs"), pm.texts_of("completions")
        texts = dict(chosen=[(p, c) for p, c, _ in pairs], rejected=[(p, r) for p, _, r in pairs], completions=[(p, c) for p, c in lines],
                     mismatched=mismatched([(p, c) for p, c in lines]))
        sums = {model: {kind: sums_of(llama_of(model), some).tolist() for kind, some in texts.items()} for model in pm.MODELS}
    head = dict(about=ABOUT.format(trl=trl.__version__, transformers=transformers.__version__, torch=torch.__version__), config=pm.CONFIG,
                parameters=[[name, list(shape)] for name, shape in pm.shapes()], pairs=pairs, completions=lines, sums=sums)
    with open(sys.argv[1], "w") as f:
        f.write("{" + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()))
        f.write(',\n"cases": [\n' + ",\n".join(json.dumps(one) for one in cases) + "\n]}\n")


if __name__ == "__main__":
    main()
