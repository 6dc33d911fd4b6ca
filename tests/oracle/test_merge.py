"""`trireme merge`, compared with plain PyTorch: means and task vectors are equal to the bit in fp32; models that do not fit together are refused."""
import json
import shutil

import pytest
import torch
from parity import trireme, yaml_of
from safetensors.torch import load_file

BAD_CONFIG, BAD_FILE = 3, 4
MODEL = dict(family="llama", num_layers=2, hidden_size=16, num_heads=4, num_kv_heads=2, ffn_size=24, vocab_size=257, max_sequence=32)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Four models of different seeds, one of them a run, and one of another width."""
    folder = tmp_path_factory.mktemp("merge")
    (folder / "text.txt").write_text("".join(f"Oars {i} of {i * 7919 % 1000}.\n" for i in range(60)))
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt")
    for seed, name in enumerate(("a", "b", "c", "base", "wide")):
        model = dict(MODEL, ffn_size=32) if name == "wide" else MODEL
        (folder / f"{name}.yaml").write_text(yaml_of(dict(
            model=model, seed=seed + 1, data=dict(train=str(folder / "data/train"), sequence=16), layout=dict(micro_batch=2),
            optimizer=dict(global_batch=2, steps=1, lr=1e-2), evaluation=dict(every=0), output=str(folder / f"run-{name}"))))
        trireme("train", folder / f"{name}.yaml")
        trireme("export", folder / f"run-{name}", folder / name)
    return folder


def weights_of(folder):
    return load_file(folder / "model.safetensors")


def merged(made, out, *words):
    trireme("merge", *words, "--out", out)
    return weights_of(out), [weights_of(made / name) for name in ("a", "b", "c", "base")]


def weighted(terms, weights):
    total = terms[0] * weights[0]
    for term, weight in zip(terms[1:], weights[1:]):
        total = total + term * weight
    return total


def test_json(made, tmp_path):
    """import, export and merge list the folder that they have written."""
    for name, kind, sources, words in (("model", "model", [made / "run-a"], ["export", made / "run-a", tmp_path / "model", "--precision", "bf16"]),
                                       ("checkpoint", "checkpoint", [tmp_path / "model"], ["import", tmp_path / "model", tmp_path / "checkpoint"]),
                                       ("both", "model", [made / "b", made / "c"], ["merge", made / "b", made / "c", "--out", tmp_path / "both"])):
        found = json.loads(trireme(*words, "--json").stdout)
        files = {path.name: path.stat().st_size for path in (tmp_path / name).iterdir() if not path.name.startswith(".")}
        assert found == dict(folder=str(tmp_path / name), kind=kind, type="bf16" if name == "model" else "fp32", bytes=sum(files.values()),
                             files=[dict(name=file, bytes=files[file]) for file in sorted(files)], **{"from": list(map(str, sources))}), found
    assert not trireme("export", made / "b", tmp_path / "quiet").stdout


def test_a_weighted_mean_has_the_bits_of_torch(made, tmp_path):
    got, models = merged(made, tmp_path / "m", made / "run-a", made / "b", made / "c", "--weights", "0.3,1,-0.1")
    scales = torch.tensor([0.3, 1, -0.1])
    total = scales[0] + scales[1] + scales[2]
    assert got.keys() == models[0].keys()
    for name, value in got.items():
        assert torch.equal(value, weighted([m[name] for m in models[:3]], scales) / total), name
    halves, _ = merged(made, tmp_path / "h", made / "a", made / "b", "--dtype", "bf16", "--shard-bytes", "100000000")
    for name, value in halves.items():
        assert torch.equal(value, ((models[0][name] + models[1][name]) / 2).bfloat16()), name
    named, _ = merged(made, tmp_path / "n", made / "a", made / "b", "--precision", "bfloat16", "--shard-bytes", "100000000")
    assert all(torch.equal(named[name], value) for name, value in halves.items())
    trireme("eval", tmp_path / "m", made / "data/train", "--sequence", "16")


def test_a_link_is_the_model_that_it_links_to(made, tmp_path):
    """The best checkpoint of a run is a link to one of the others, and counts once."""
    (tmp_path / "best").symlink_to(made / "b")
    said = trireme("merge", made / "a", made / "b", tmp_path / "best", made / "run-a", "--out", tmp_path / "m").stderr
    assert f"{tmp_path / 'best'} is {made / 'b'}, which counts once" in said and f"model 3 of 3: {made / 'run-a'}" in said
    got, models = weights_of(tmp_path / "m"), [weights_of(made / name) for name in "aba"]
    for name, value in got.items():
        assert torch.equal(value, weighted([m[name] for m in models], torch.ones(3)) / 3), name
    said = trireme("merge", made / "b", tmp_path / "best", "--weights", "1,2", "--out", tmp_path / "n", status=2).stderr
    assert "merge: two of the 2 models are one folder; name it once, with a larger weight" in said and not (tmp_path / "n").exists()


def test_task_vectors_have_the_bits_of_torch(made, tmp_path):
    got, models = merged(made, tmp_path / "m", made / "a", made / "b", "--weights", "0.3,0.9", "--base", made / "base", "--scale", "0.7",
                         "--method", "task_arithmetic")
    for name, value in got.items():
        base = models[3][name]
        delta = weighted([m[name] - base for m in models[:2]], torch.tensor([0.3, 0.9]))
        assert torch.equal(value, base + delta * torch.tensor(0.7)), name


@pytest.mark.parametrize("t", [0, 0.3, 1])
def test_slerp(made, tmp_path, t):
    got, models = merged(made, tmp_path / "m", made / "a", made / "b", "--method", "slerp", "--t", t)
    for name, value in got.items():
        a, b = models[0][name].double(), models[1][name].double()
        cosine = torch.sum(a / a.norm() * (b / b.norm()))
        first, second = 1 - t, t
        if abs(cosine) <= 0.9995:
            angle = torch.arccos(cosine)
            first, second = (torch.sin((1 - t) * angle) / torch.sin(angle), torch.sin(t * angle) / torch.sin(angle))
        torch.testing.assert_close(value.double(), first * a + second * b, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("density", [0.2, 0.55, 1])
def test_ties(made, tmp_path, density):
    got, models = merged(made, tmp_path / "m", made / "a", made / "b", made / "c", "--weights", "1,0.5,2", "--base", made / "base",
                         "--method", "ties", "--density", density, "--scale", "0.8")
    for name, value in got.items():
        base, terms, scales = models[3][name], [], torch.tensor([1, 0.5, 2])
        for model in models[:3]:
            delta = (model[name] - base).flatten()
            order = delta.abs().sort(descending=True, stable=True).indices[:int(density * delta.numel())]
            terms.append(torch.zeros_like(delta).index_copy(0, order, delta[order]).view_as(base))
        terms = torch.stack(terms) * scales.view(-1, *[1] * base.ndim)
        agree = terms.sign() == torch.where(terms.sum(0) >= 0, 1.0, -1.0)
        counted = (agree * scales.view(-1, *[1] * base.ndim)).sum(0)
        expected = base + 0.8 * (terms * agree).sum(0) / torch.where(counted == 0, 1.0, counted)
        torch.testing.assert_close(value, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("words, status, message", [
    (("a", "wide"), BAD_CONFIG, "`ffn_size: 24`"),
    (("a", "b", "--weights", "1,-1"), 2, "sum to 0"),
    (("a", "b", "--weights", "1"), 2, "one number for each of the 2 models"),
    (("a", "b", "--method", "mean"), 2, "linear, task_arithmetic, slerp or ties"),
    (("a", "b", "--method", "ties"), 2, "needs --base"),
    (("a", "b", "c", "--method", "slerp"), 2, "takes 2 models, but 3"),
    (("a", "b", "--method", "slerp", "--weights", "1,3"), 2, "--weights does not apply to slerp"),
    (("a", "b", "--density", "0.5"), 2, "--density does not apply to linear"), (("a", "b", "--scale", "2"), 2, "--scale does not apply to linear"),
    (("a", "b", "--t", "0.5"), 2, "--t does not apply to linear"), (("a", "b", "--method", "task_arithmetic", "--base", "c", "--density", "1"), 2, "--density does not apply to task_arithmetic"),
    (("a", "none"), BAD_FILE, "none"),
])
def test_what_does_not_go_together_is_refused(made, tmp_path, words, status, message):
    paths = [made / word if word in ("a", "b", "c", "wide", "none") else word for word in words]
    failed = trireme("merge", *paths, "--out", tmp_path / "m", status=status)
    assert message in failed.stderr
    assert not (tmp_path / "m").exists()


def test_a_folder_that_is_there_is_refused(made, tmp_path):
    assert "already exists" in trireme("merge", made / "a", made / "b", "--out", made / "c", status=2).stderr


def test_another_tokenizer_is_refused(made, tmp_path):
    shutil.copytree(made / "b", tmp_path / "b")
    tokenizer = json.loads((made / "b/tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    first, second = list(vocabulary)[:2]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    (tmp_path / "b/tokenizer.json").write_text(json.dumps(tokenizer))
    failed = trireme("merge", made / "a", tmp_path / "b", "--out", tmp_path / "m", status=BAD_CONFIG)
    assert "the tokenizers differ" in failed.stderr
