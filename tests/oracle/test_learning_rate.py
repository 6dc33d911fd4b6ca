"""The learning rate beside PyTorch's own schedulers, which count updates from 0 where we count from 1."""

import os
import subprocess
import warnings

import pytest

torch = pytest.importorskip("torch")
from torch.optim import lr_scheduler  # noqa: E402

TOOL = os.path.join(os.environ["TRIREME_TOOLS"], "learning_rate_tool")


def ours(kind, steps, warmup, lr, min_lr, fraction=0.2):
    arguments = [TOOL, kind, steps, warmup, lr, min_lr, fraction]
    output = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, check=True).stdout
    return [float(line) for line in output.split()]


def theirs(make_scheduler, count, lr):
    """The rates of `count` updates under a PyTorch scheduler."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    scheduler = make_scheduler(optimizer)
    rates = []
    for _ in range(count):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scheduler.step()
    return rates


def assert_close(mine, reference):
    assert len(mine) == len(reference)
    for step, (a, b) in enumerate(zip(mine, reference)):
        assert a == pytest.approx(b, rel=1e-9, abs=1e-15), step


@pytest.mark.parametrize("steps,warmup", [(500, 50), (37, 5), (10, 1), (2, 1)])
def test_warm_up_is_linear(steps, warmup):
    reference = theirs(lambda o: lr_scheduler.LinearLR(o, 1 / warmup, 1.0, max(warmup - 1, 1)) if warmup > 1
                       else lr_scheduler.ConstantLR(o, 1.0, 1), warmup, 6e-4)
    for kind in ("constant", "linear", "cosine", "wsd"):
        assert_close(ours(kind, steps, warmup, 6e-4, 6e-5)[:warmup], reference)


# At the last step of the warm-up the rate is lr, which is PyTorch's update 0 of the decay.
@pytest.mark.parametrize("steps,warmup", [(500, 50), (37, 5), (1000, 1)])
@pytest.mark.parametrize("min_lr", [0.0, 6e-5])
def test_cosine(steps, warmup, min_lr):
    falling = steps - warmup
    reference = theirs(lambda o: lr_scheduler.CosineAnnealingLR(o, falling, min_lr), falling + 1, 6e-4)
    assert_close(ours("cosine", steps, warmup, 6e-4, min_lr)[warmup - 1:], reference)


@pytest.mark.parametrize("steps,warmup", [(500, 50), (37, 5), (1000, 1)])
@pytest.mark.parametrize("min_lr", [0.0, 6e-5])
def test_linear(steps, warmup, min_lr):
    falling = steps - warmup
    reference = theirs(lambda o: lr_scheduler.LinearLR(o, 1.0, min_lr / 6e-4, falling), falling + 1, 6e-4)
    assert_close(ours("linear", steps, warmup, 6e-4, min_lr)[warmup - 1:], reference)


def test_wsd():
    steps, warmup, falling = 400, 40, 80
    rates = ours("wsd", steps, warmup, 1e-3, 1e-5, 0.2)
    assert rates[warmup - 1:steps - falling] == [1e-3] * (steps - falling - warmup + 1)
    reference = theirs(lambda o: lr_scheduler.LinearLR(o, 1.0, 0.01, falling), falling + 1, 1e-3)
    assert_close(rates[steps - falling - 1:], reference)


def test_no_warm_up_at_all():
    steps = 100
    reference = theirs(lambda o: lr_scheduler.CosineAnnealingLR(o, steps, 1e-4), steps + 1, 1e-3)
    assert_close(ours("cosine", steps, 0, 1e-3, 1e-4), reference[1:])
