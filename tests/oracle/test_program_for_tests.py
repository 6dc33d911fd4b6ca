"""trireme-test: the product's program with the devices for tests. The product has neither of these devices, and says so by name."""
import json
import os
import re
import subprocess

import pytest
from parity import TRIREME, WITH_TEST_DEVICES
from test_device_faults import corpus, write_run  # noqa: F401: a fixture

pytestmark = pytest.mark.cpu  # names its devices itself
DEVICES = ["guarded", "guarded:seed=7", "emulated", "emulated:warp=64,seed=2"]


def run(program, *words):
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True, errors="replace", timeout=300)


@pytest.fixture(scope="module")
def product():
    """Returns the installed program. If the tests run on a device for tests, TRIREME is the program that has that device."""
    return TRIREME.removesuffix("-test")


def refusal(name):
    return (f"this build has no device `{name}`, which is for tests: `make build-tests` makes build/trireme-test, which has it; to train, "
            "use `device: auto`, cpu, reference or gpu")


@pytest.mark.parametrize("device", DEVICES)
def test_the_product_refuses_them_by_name(product, tmp_path, corpus, device):  # noqa: F811
    """Devices for tests are refused in a run file, on the command line, in a run of trireme-test, and with an invalid option."""
    path = write_run(tmp_path, corpus, 1, device=device)
    for words in (("train", path), ("train", path, "--dry-run"), ("train", path, "-n", 2)):
        done = run(product, *words)
        assert done.returncode == 3 and f"`device`: {refusal(device)}" in done.stderr, done.stderr
        assert len([line for line in done.stderr.splitlines() if line.startswith("trireme: ")]) == 1, done.stderr
    assert not (tmp_path / "run").exists()
    assert run(WITH_TEST_DEVICES, "train", path, "--set", "optimizer.steps=2").returncode == 0
    for words in (("eval", tmp_path / "run", corpus / "validation"), ("generate", tmp_path / "run", "--prompt", "a", "--tokens", 2)):
        done = run(product, *words, "--device", device)
        assert done.returncode == 3 and refusal(device) in done.stderr, done.stderr
        assert run(product, *words).returncode == 0  # on a device that it has
    done = run(product, "train", tmp_path / "run/config.yaml", "--set", "optimizer.steps=4")
    assert done.returncode == 3 and refusal(device) in done.stderr, done.stderr
    done = run(product, "train", tmp_path / "run/config.yaml", "--set", "optimizer.steps=4", "--set", "device=reference")
    assert done.returncode == 0, done.stderr


def test_what_each_names(product):
    """Help, completion and version name the devices that there are."""
    for words in (("train", "--help"), ("train", "--keys"), ("generate", "--help"), ("help",), ("--complete", "2", "trireme", "eval", "--device", "")):
        assert not re.search("guarded|emulated", run(product, *words).stdout), words
    devices = {program: next(line for line in run(program, "--version").stdout.splitlines() if line.startswith("devices")).split()[1:]
               for program in (product, WITH_TEST_DEVICES)}
    assert devices == {product: ["cpu", "reference", "gpu"], WITH_TEST_DEVICES: ["cpu", "reference", "gpu", "guarded", "emulated"]}


@pytest.mark.parametrize("name, product_says, other_says", [
    ("guardd", "; did you mean", "; did you mean `guarded`?"), ("abacus", "one of several) (", "emulated (emulated:warp=64, ...)")])
def test_names_that_are_not_a_device(product, tmp_path, corpus, name, product_says, other_says):  # noqa: F811
    path = write_run(tmp_path, corpus, 1, device=name)
    said, others = (run(program, "train", path).stderr for program in (product, WITH_TEST_DEVICES))
    assert f"`{name}` is not a device" in said and not re.search("guarded|emulated", said), said
    assert f"`{name}` is not a device" in others and other_says in others, others


def test_a_long_run_says_once_that_it_is_for_tests(tmp_path, corpus):  # noqa: F811
    path = write_run(tmp_path, corpus, 1, device="reference")
    words = ["--set", "optimizer.steps=1001", "--set", "evaluation.every=0", "--set", "checkpoint.every=0", "--set", "data.sequence=4",
             "--set", "optimizer.global_batch=1", "--set", "model.num_layers=1"]
    said = "this is trireme-test, which is for tests of its devices `guarded` and `emulated`; train 1001 steps with trireme"
    assert run(WITH_TEST_DEVICES, "train", path, *words).stderr.count(said) == 1
    assert "this is trireme-test" not in run(WITH_TEST_DEVICES, "train", path, "--resume", "never", *words, "--set", "optimizer.steps=2").stderr


def test_two_ranks_are_the_same_program(tmp_path, corpus):  # noqa: F811
    path = write_run(tmp_path, corpus, 2)
    assert run(WITH_TEST_DEVICES, "train", path, "-n", 2, "--set", "optimizer.steps=2").returncode == 0
    assert json.loads((tmp_path / "run/summary.json").read_text())


def test_no_symbol_of_theirs_in_the_product(product):
    """Nor in libtrireme."""
    folder = os.path.dirname(product)
    files = [product] + [os.path.join(folder, name) for name in ("libtrireme.so", "libtrireme.a") if os.path.exists(os.path.join(folder, name))]
    for file in files:
        names = subprocess.run(["nm", file], capture_output=True, text=True, check=True).stdout
        assert not re.search("tri_(guarded|emulat|fiber)", names), file
    assert "tri_guarded_create" in subprocess.run(["nm", WITH_TEST_DEVICES], capture_output=True, text=True, check=True).stdout
