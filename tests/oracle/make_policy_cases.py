"""Makes policy_cases.json: results of TRL's GRPOTrainer on the tiny Llama of preference_models.py, in double.

make_policy_cases.py OUT, in an environment with trl 1.16.0 and PyTorch.

GRPOTrainer._compute_loss computes every loss. Two things are changed: computations in single run in double (transformers_models.in_double), and a plain softmax
replaces its fused head, which also computes in single.
"""
import json
import os
import sys
import tempfile
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import make_preference_cases as preference  # noqa: E402 (sets the environment)
import preference_models as pm  # noqa: E402
import datasets  # noqa: E402
import families  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import transformers_models  # noqa: E402
import trl  # noqa: E402

LONGEST = 9
ADVANTAGES = (1.3, -0.4, 0.2, -1.1, 0.7, -0.6)
NOISE = dict(old=0.4, reference=0.5, behaviour=0.3)


def asked():
    """Cases: the loss type and arguments of GRPOConfig; `has_old`: whether the update is not the first; importance: mode, or None."""
    def case(loss_type, *, beta=0.0, mode=None, level="token", delta=None, temperature=1.0, has_old=True, limit=None, entropy=0.0):
        return dict(loss_type=loss_type, beta=beta, mode=mode, level=level, delta=delta, temperature=temperature, has_old=has_old, limit=limit, entropy=entropy)
    modes = (None, "token_truncate", "token_mask", "sequence_truncate", "sequence_mask")
    for loss in ("grpo", "dapo", "dr_grpo", "cispo"):
        for beta in (0.0, 0.04):
            for mode in modes:
                yield case(loss, beta=beta, mode=mode)
            yield case(loss, beta=beta, has_old=False)
            yield case(loss, beta=beta, temperature=0.7)
    for beta in (0.0, 0.3):
        for mode in modes:
            yield case("grpo", beta=beta, mode=mode, level="sequence")
        yield case("grpo", beta=beta, level="sequence", has_old=False)
        yield case("dapo", beta=beta, level="sequence", delta=1.5)
        yield case("dapo", beta=beta, delta=1.5)
        yield case("dapo", beta=beta, limit=0.05, mode="token_mask")
        yield case("dapo", beta=beta, mode="token_mask", entropy=0.3, temperature=0.7)
        yield case("grpo", beta=beta, level="sequence", entropy=0.3)
        yield case("grpo", beta=beta, limit=0.05, level="sequence", temperature=1.3)


def log_probs_of(model, ids, mask, keep, temperature):
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    logits = model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False).logits[:, -keep - 1:-1] / temperature
    each = torch.log_softmax(logits, -1)
    return each.gather(-1, ids[:, -keep:, None]).squeeze(-1), -(each.exp() * each).sum(-1)


def rows_of(texts):
    """Prompts padded at the left and completions at the right, and their masks."""
    left, right = max(len(p) for p, _ in texts), LONGEST
    prompts = torch.tensor([[0] * (left - len(p)) + p for p, _ in texts])
    completions = torch.tensor([c + [0] * (right - len(c)) for _, c in texts])
    return (prompts, torch.tensor([[0] * (left - len(p)) + [1] * len(p) for p, _ in texts]), completions,
            torch.tensor([[1] * len(c) + [0] * (right - len(c)) for _, c in texts]))


def trainer_of(one, model, folder):
    config = trl.GRPOConfig(output_dir=folder, use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[], per_device_train_batch_size=6, num_generations=6,
                            max_completion_length=LONGEST, save_strategy="no", disable_tqdm=True, loss_type=one["loss_type"], beta=0.0, epsilon=0.2,
                            epsilon_high=2.0 if one["loss_type"] == "cispo" else 0.28, delta=one["delta"], importance_sampling_level=one["level"], temperature=one["temperature"],
                            off_policy_mask_threshold=one["limit"], entropy_coef=one["entropy"])
    made = trl.GRPOTrainer(model=model, reward_funcs=lambda completions, **_: [0.0] * len(completions), args=config,
                           train_dataset=datasets.Dataset.from_dict({"prompt": ["2 3"] * 8}), processing_class=preference.tokenizer_of())
    def plain(self, model, ids, mask, keep, **_):
        return *log_probs_of(model, ids, mask, keep, one["temperature"]), None
    made._get_per_token_logps_and_entropies = types.MethodType(plain, made)
    made.current_gradient_accumulation_steps, made.beta, made.use_vllm = 1, one["beta"], one["mode"] is not None
    made.vllm_importance_sampling_correction = True
    return made


def noise_of(name):
    shape = (len(ADVANTAGES), LONGEST)
    return NOISE[name] * torch.tensor(families.mixed(f"policy {name}", shape[0] * shape[1]).reshape(shape))


def importance_of(one, difference, mask):
    """TRL's ratio, as _generate_and_score_completions makes it."""
    difference = difference * mask
    ratio = torch.exp(difference.sum(1, keepdim=True) if "sequence" in one["mode"] else difference)
    return torch.clamp(ratio, 0.5, 3.0) if "truncate" in one["mode"] else torch.where((ratio < 0.5) | (ratio > 3.0), torch.zeros_like(ratio), ratio)


def found_of(one, folder):
    model = preference.llama_of("one")
    prompts, prompt_mask, completions, mask = rows_of(pm.texts_of("completions"))
    made = trainer_of(one, model, folder)
    model = made.model.double()
    with torch.no_grad():
        now, _ = log_probs_of(model, torch.cat([prompts, completions], 1), torch.cat([prompt_mask, mask], 1), LONGEST, one["temperature"])
    old = now + noise_of("old") if one["has_old"] else now
    behaviour, reference = old + noise_of("behaviour"), now + noise_of("reference")
    inputs = dict(prompt_ids=prompts, prompt_mask=prompt_mask, completion_ids=completions, completion_mask=mask, advantages=torch.tensor(ADVANTAGES),
                  ref_per_token_logps=reference, num_items_in_batch=mask.sum(), old_per_token_logps=old if one["has_old"] else None, sampling_per_token_logps=behaviour)
    if one["mode"]:
        inputs["importance_sampling_ratio"] = importance_of(one, old - behaviour, mask)
    model.train()
    model.zero_grad()
    loss = made._compute_loss(model, inputs)
    loss.backward()
    gradients = {name: tensor.grad.numpy() for name, tensor in model.named_parameters()}
    said = [[float((g * g).sum()), *(float((g * pm.probe_of(n, name, g.shape)).sum()) for n in range(pm.PROBES))] for name, g in ((name, gradients[name]) for name in pm.names())]
    return dict(one, value=loss.item(), gradients=said)


ABOUT = ("by tests/oracle/make_policy_cases.py with trl {trl}, transformers {transformers}, torch {torch}; tensors, token ids and probes are those of preference_cases.json; a gradient "
         "is [sum of squares, products with the probes 0, 1, 2] in the order of preference_models.names(); to the log-probabilities of the policy `noise` times mixed('policy ' + NAME, "
         "completions * longest) is added")


def main():
    with transformers_models.in_double(), tempfile.TemporaryDirectory() as folder:
        cases = [found_of(one, folder) for one in asked()]
    head = dict(about=ABOUT.format(trl=trl.__version__, transformers=transformers.__version__, torch=torch.__version__), advantages=ADVANTAGES, longest=LONGEST, noise=NOISE)
    with open(sys.argv[1], "w") as f:
        f.write("{" + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()))
        f.write(',\n"cases": [\n' + ",\n".join(json.dumps(one) for one in cases) + "\n]}\n")


if __name__ == "__main__":
    main()
