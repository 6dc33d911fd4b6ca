"""Makes preference_training.json: ten steps of TRL's losses of preferences and torch.optim.AdamW on the folder and the pairs of
preference_runs.py, in double, with the batches that our runs have.

make_preference_training.py OUT, in an environment with trl 1.16.0 and PyTorch; TRIREME and TRIREME_TOOLS name the program and build/tools.
"""
import json
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import make_preference_cases as cases  # noqa: E402
import preference_models as pm  # noqa: E402
import preference_runs as runs  # noqa: E402
import torch  # noqa: E402
import transformers_models  # noqa: E402
import trl  # noqa: E402

# The trainer of each loss, and what its configuration is called with.
TRAINERS = {
    "dpo": ("DPO", dict(loss_type=["sigmoid"], beta=0.1)),
    "ipo": ("DPO", dict(loss_type=["ipo"], beta=0.1)),
    "kto": ("KTO", dict(loss_type="kto", beta=0.3, desirable_weight=1.25, undesirable_weight=0.75)),
    "simpo": ("CPO", dict(loss_type="simpo", beta=2.0, simpo_gamma=0.5, cpo_alpha=0.5)),
    "orpo": ("ORPO", dict(beta=0.1)),
}
KEPT = ("rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies", "logps/chosen", "logps/rejected", "kl")


def model_of():
    model = cases.llama_of("one")
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            tensor.copy_(torch.tensor(runs.weights_of_folder()[name]))
    return model


def loss_of(trainer, made, policy, reference, units):
    """Loss and metrics of a batch; as make_preference_cases.py calls them."""
    kind = "answers" if trainer == "KTO" else "pairs"
    texts = [runs.texts_of_unit(kind, unit) for unit in units]
    if trainer == "KTO":
        made.ref_model = cases.Plain(reference)
        batch = dict(cases.padded([one for one, in texts]), **cases.padded([runs.mismatched_of_unit(unit) for unit in units], "KL_"),
                     label=torch.tensor([unit < runs.LINES for unit in units]))
        loss = made._compute_loss(cases.Plain(policy), batch, False)
        return loss, {key: values[-1] for key, values in made._metrics["train"].items()}
    chosen, rejected = [c for c, _ in texts], [r for _, r in texts]
    if trainer == "DPO":
        made.ref_model = cases.Plain(reference)
        loss = made._compute_loss(cases.Plain(policy), cases.padded(chosen + rejected), False)
        return loss, {key: values[-1] for key, values in made._metrics["train"].items()}
    batch = {}
    for prefix, some in (("chosen_", chosen), ("rejected_", rejected)):
        rows = cases.padded(some, prefix)
        answers = rows.pop(prefix + "completion_mask")
        batch.update(rows, **{prefix + "labels": rows[prefix + "input_ids"].masked_fill(answers == 0, -100)})
    return made.get_batch_loss_metrics(policy, batch, "train")


def margins_of(loss, beta, policy, reference, units):
    """Returns the margin of each pair, from which accuracies are computed: the difference of the rewards, with the settings of run files."""
    if loss == "kto":
        return []
    sums = {model: cases.sums_of(model, [text for unit in units for text in runs.texts_of_unit("pairs", unit)])[:, 0].detach() for model in (policy, reference)}
    labels = torch.tensor([len(answer) for unit in units for _, answer in runs.texts_of_unit("pairs", unit)], dtype=torch.float64)
    rewards = beta * {"dpo": sums[policy] - sums[reference], "ipo": (sums[policy] - sums[reference]), "simpo": sums[policy] / labels, "orpo": sums[policy] / labels}[loss]
    return (rewards[0::2] - rewards[1::2]).tolist()


def clipped(policy):
    """Returns the norm of all gradients, and clips it to 1. (clip_grad_norm_ adds 1e-6 to the norm.)"""
    norm = torch.sqrt(sum((tensor.grad ** 2).sum() for tensor in policy.parameters())).item()
    for tensor in policy.parameters():
        tensor.grad /= max(norm, 1.0)
    return norm


def optimizer_of(policy):
    """Matrices decay."""
    groups = [dict(params=[t for t in policy.parameters() if (t.dim() > 1) == decays], weight_decay=runs.DECAY * decays) for decays in (True, False)]
    return torch.optim.AdamW(groups, lr=runs.LR, betas=(0.9, 0.95), eps=1e-8)


def steps_of(loss, order, folder):
    trainer, arguments = TRAINERS[loss]
    policy, reference = model_of(), model_of()
    made = cases.trainer_of(trainer, arguments, policy, reference, folder)
    optimizer, steps = optimizer_of(policy), []
    for step in range(runs.STEPS):
        units = order[step * runs.BATCH:(step + 1) * runs.BATCH]
        margins = margins_of(loss, arguments["beta"], policy, reference, units)
        found, metrics = loss_of(trainer, made, policy, reference, units)
        policy.zero_grad()
        found.backward()
        norm = clipped(policy)
        for group in optimizer.param_groups:
            group["lr"] = runs.rate_of(step)
        optimizer.step()
        steps.append(dict(loss=found.item(), grad_norm=norm, margins=margins, metrics={key: float(metrics[key]) for key in KEPT if key in metrics}))
    return steps


def found_of(loss, folder):
    """Returns the stored results of a loss."""
    made = runs.write_all(pathlib.Path(folder))
    runs.train(made, made, runs.OBJECTIVES[loss], words=["--set", "optimizer.steps=1"])
    order = runs.order_of(made, runs.OBJECTIVES[loss])
    with transformers_models.in_double():
        return dict(loss=loss, arguments=TRAINERS[loss][1], order=order, steps=steps_of(loss, order, str(folder)))


def main():
    found = []
    for loss in TRAINERS:
        with tempfile.TemporaryDirectory() as folder:
            found.append(found_of(loss, folder))
    about = (f"by tests/oracle/make_preference_training.py with trl {trl.__version__}, torch {torch.__version__}: `order` has the unit of each sample, "
             f"{runs.BATCH} a step; `margins` the differences of rewards of a batch's pairs")
    with open(sys.argv[1], "w") as f:
        f.write(f'{{"about": {json.dumps(about)},\n"losses": [\n' + ",\n".join(json.dumps(one) for one in found) + "\n]}\n")


if __name__ == "__main__":
    main()
