"""The pages that say how to add something, tried as they are printed: in a copy of the tree, beside PyTorch and plain arithmetic."""
import json
import os
import re
import shlex
import subprocess

import expert_models
import models
import numpy
import optimizers
import parity
import pytest
import torch
from changed_tree import ROOT, ChangedTree, blocks_of
from optimizer_runs import LLAMA, batches_of, check_weights, close, corpus_of, lines_of, start_from, weights_of, write_run
from test_layouts import needs_launcher

TINY = dict(num_layers=2, hidden_size=32, num_heads=4, ffn_size=48, vocab_size=61, max_sequence=24)
SIGNUM = dict(name="signum", betas=[0.8, 0.3], lr=1e-3, weight_decay=0.3)


# ---- an activation ---------------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def activation_tools(tmp_path_factory):
    tree = ChangedTree(tmp_path_factory.mktemp("activation"))
    tree.do("adding-an-activation.md")
    assert len(tree.touched) == 4
    tree.build(["tools/parity_tool"], r"\bTRI_ACTIVATIONS|/activations\.h")
    return tree.folder


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_activation(tmp_path, activation_tools, monkeypatch, family):
    def gated(w, name, x):
        gate, up, down = (w[f"{name}{part}_proj.weight"].T for part in ("gate", "up", "down"))
        return (torch.sigmoid(x @ gate) * (x @ up)) @ down

    monkeypatch.setattr(parity, "TOOLS", str(activation_tools))
    monkeypatch.setitem(models.ACTIVATIONS, "sigmoid", torch.sigmoid)
    monkeypatch.setattr(expert_models, "dense_part", gated)
    model = dict(TINY, family=family, activation="sigmoid")
    weights = parity.Weights(tmp_path, model)
    generator = numpy.random.default_rng(3)
    ids, labels = generator.integers(0, 61, (2, 3, 20))
    tensors = weights.tensors()
    loss = models.loss(model, tensors, torch.tensor(ids), torch.tensor(labels))
    loss.backward()
    whole = numpy.sqrt(sum(float((t.grad**2).sum()) for t in tensors.values()))
    for device, precision, limit in (("reference", "fp64", 1e-10), ("cpu", "fp32", 1e-4), ("emulated", "fp32", 1e-4)):
        got, found = weights.gradients(device, precision, ids, labels, 1)
        assert abs(got["loss"] / loss.item() - 1) <= limit, device
        for name, tensor in tensors.items():
            expected = tensor.grad.numpy()
            error = numpy.linalg.norm(found[name] - expected) / max(numpy.linalg.norm(expected), 1e-3 * whole)
            assert error <= limit, (device, name, error)


# ---- an optimizer ----------------------------------------------------------------------------------------------------

PLANNED = "simulate --model gpt2-1.5b --cluster a100-40 --devices 8 --global-batch 64 --layout zero=1 --json".split()


class Signum(optimizers.Rule):
    def __init__(self, *given):
        super().__init__(*given)
        self.m = torch.zeros_like(self.p)

    def change(self, g, lr):
        beta = self.keys["betas"][0]
        self.p *= 1 - lr * self.weight_decay
        self.m = beta * self.m + (1 - beta) * g
        self.p -= lr * torch.sign(self.m)


@pytest.fixture(scope="module")
def optimizer_program(tmp_path_factory):
    tree = ChangedTree(tmp_path_factory.mktemp("optimizer"))
    tree.do("adding-an-optimizer.md")
    return tree.build(["trireme"], r"\bTRI_OPTIMIZERS\b")["trireme"]


@needs_launcher
def test_optimizer(tmp_path, optimizer_program, monkeypatch):
    monkeypatch.setattr(parity, "TRIREME", str(optimizer_program))
    monkeypatch.setattr(optimizers, "rule_of", lambda name, parameter, keys: Signum(name, parameter, keys, keys[optimizers.group_of(name, parameter)]["weight_decay"]))
    corpus = corpus_of(tmp_path)
    start, weights = start_from(tmp_path, LLAMA)
    path = write_run(tmp_path, corpus, SIGNUM, model=LLAMA, precision="fp64", init=str(start))
    expected = optimizers.train(LLAMA, weights.tensors(), batches_of(tmp_path, corpus, LLAMA), json.loads(path.read_text())["optimizer"])
    for number, words in enumerate(([], ["-n", 2, "--set", "layout.zero=3", "--set", "layout.micro_batch=1"])):
        output = tmp_path / f"run{number}"
        parity.trireme("train", path, "--set", f"output={output}", *words)
        close([line["loss"] for line in lines_of(output)], expected["loss"])
        check_weights(weights_of(output), expected["weights"])
    half, usual = (json.loads(parity.trireme(*PLANNED, *words).stdout)["memory"]["optimizer"] for words in (["--optimizer", "signum"], []))
    assert abs(2 * half / usual - 1) < 1e-6  # one state, not two; what arrays are rounded up to stays


# ---- a cluster -------------------------------------------------------------------------------------------------------

def run_there(folder, command, status=0):
    words = [parity.TRIREME, *shlex.split(command)[1:]]
    done = subprocess.run(words, cwd=folder, env={**os.environ, "TRIREME_CONFIGS": "ours"}, capture_output=True, text=True)
    assert done.returncode == status, (command, done.stderr)
    return done.stdout + done.stderr


def test_cluster(tmp_path):
    page = (ROOT / "docs/adding-a-cluster.md").read_text()
    name = re.search(r"One file, `(ours/\S+\.yaml)`", page)[1]
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text(blocks_of("adding-a-cluster.md", "yaml")[0])
    setting, simulate, plan = blocks_of("adding-a-cluster.md", "sh")[0].strip().splitlines()
    assert setting == "export TRIREME_CONFIGS=ours"
    assert "): fits" in run_there(tmp_path, simulate) and run_there(tmp_path, plan).count("layout: {") >= 1

    # The step's FLOPs at the peak are its time times MFU; parameters by hand: 12 L H^2 + 13 L H + (V + T) H + 2 H.
    said = json.loads(run_there(tmp_path, simulate + " --json"))
    flops = said["model_tflops_per_device"] * 1e12
    assert abs(flops / 312e12 / said["mfu"] - 1) < 1e-9 and 0.3 < said["mfu"] < 0.6
    layers, width, vocabulary, length = 48, 1600, 50257, 1024
    parameters = 12 * layers * width**2 + 13 * layers * width + (vocabulary + length) * width + 2 * width
    by_hand = 512 / 64 * length * (6 * (parameters - length * width) + 12 * layers * length * width)
    assert abs(flops * said["step_s"] / by_hand - 1) < 0.01
    assert "6144" in run_there(tmp_path, simulate.replace("--devices 64", "--devices 8192").replace("--global-batch 512", "--global-batch 65536"), status=2)

    # By its path; and a key that is not there.
    assert run_there(tmp_path, simulate.replace("--cluster perlmutter", f"--cluster {name}")) == run_there(tmp_path, simulate)
    text = (tmp_path / name).read_text()
    (tmp_path / name).write_text(text.replace("memory_bandwidth:", "memory_bandwith:"))
    assert "did you mean `memory_bandwidth`?" in run_there(tmp_path, simulate, status=3)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *os.sys.argv[1:]]))
