"""kernel_check as a program: its output, JSON and exit status. tests/unit/test_kernel_check.c tests its findings."""
import json
import os
import pathlib
import re
import subprocess

import pytest

TOOLS = pathlib.Path(os.environ["TRIREME_TOOLS"])
PROGRAM = TOOLS / "kernel_check-test"  # with the devices for tests


def check(*words):
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=600)


def test_a_device_that_is_right(tmp_path):
    done = check("guarded", "--quick", "--kernels", "activation_forward,matmul_pack,add", "--json", tmp_path / "out.json")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines()[1:-1]]
    assert [(words[0], words[1], words[-1]) for words in lines] == [
        (kernel, kind, "ok") for kernel in ("add", "activation_forward", "matmul_pack") for kind in ("fp64", "fp32")]
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["device"] == "guarded" and document["wrong"] == 0 and document["quick"] is True
    assert len(document["results"]) == 6 and all(r["ok"] and r["worst"] == 0 and r["cases"] > 6 for r in document["results"])
    assert re.match(rf"kernel_check: guarded \(guarded\), seed {document['results'][0]['seed']}, quick$", done.stdout.splitlines()[0])


def test_a_printed_seed_repeats_and_others_differ(tmp_path):
    words = ["emulated", "--quick", "--kernels", "layer_norm_forward", "--types", "fp32"]
    first = check(*words, "--seeds", 3, "--json", tmp_path / "out.json")
    assert first.returncode == 0, first.stdout
    results = json.loads((tmp_path / "out.json").read_text())["results"]
    assert len(results) == 3 and len({r["worst"] for r in results}) > 1 and len({r["seed"] for r in results}) == 3
    again = check(*words, "--seed", results[2]["seed"])
    assert again.stdout.splitlines()[1] == first.stdout.splitlines()[-2]


def test_a_device_that_fails_is_opened_again(tmp_path):
    done = check("guarded:fail_kernel=3", "--quick", "--kernels", "add", "--types", "fp32", "--json", tmp_path / "out.json")
    assert done.returncode == 1 and "FAILED" in done.stdout and "the device fails the 3rd, as requested (fail_kernel)" in done.stdout
    result = json.loads((tmp_path / "out.json").read_text())["results"][0]
    assert not result["ok"] and "as requested" in result["first"] and 1 <= result["failures"] < result["cases"]


@pytest.mark.parametrize("words, status, text", [
    ((), 2, "usage: kernel_check DEVICE"),
    (("guarded", "--kernels", "add,multiply"), 2, "--kernels: there is no `multiply`"),
    (("guarded", "--types", "fp8"), 2, "--types: there is no `fp8`"),
    (("guarded", "--seed", "x"), 2, "--seed takes a whole number, not `x`"),
    (("guarded", "--seeds", "0"), 2, "--seeds takes 1 to 1000000"),
    (("guarded", "--slow", "1"), 2, "`--slow` is not an option"),
    (("guarded", "--json"), 2, "`--json` is one word too many, or its value is missing"),
    (("abacus", "--quick"), 3, "`abacus` is not a device"),
    (("guarded", "--quick", "--types", "bf16"), 7, "does not run precision bf16"),
    (("guarded", "--quick", "--kernels", "add", "--json", "/proc/none/out.json"), 5, "/proc/none/out.json cannot be written: No such file"),
])
def test_bad_input(words, status, text):
    done = check(*words)
    assert done.returncode == status and text in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_the_one_of_the_bundle_has_no_device_for_tests():
    done = subprocess.run([TOOLS / "kernel_check", "emulated", "--quick"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 3 and "this build has no device `emulated`" in done.stderr, done.stderr
    done = subprocess.run([TOOLS / "kernel_check", "cpu", "--quick", "--kernels", "add", "--types", "fp32"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
