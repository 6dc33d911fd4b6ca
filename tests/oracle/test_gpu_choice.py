"""Which GPU each rank of a job takes, what of its memory it may have, and what a user hears of it: on emulated GPUs."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from parity import TOOLS, trireme
from test_device_faults import RANKS, corpus, last_words, train, write_run  # noqa: F401: fixtures

pytestmark = pytest.mark.cpu  # names its devices itself
needs_mpi = pytest.mark.skipif(shutil.which("mpiexec") is None, reason="SKIPPED: there is no mpiexec")
MIB = 1 << 20
STAND_IN = pathlib.Path(TOOLS).parent / "stand-in"


def has_gpu():
    return any(shutil.which(name) and subprocess.run([name], capture_output=True).returncode == 0 for name in ("nvidia-smi", "rocm-smi"))


@pytest.mark.skipif(has_gpu(), reason="SKIPPED: there is a GPU")
@pytest.mark.parametrize("ranks", RANKS)
def test_no_gpu(tmp_path, corpus, ranks):  # noqa: F811
    said = last_words(train(write_run(tmp_path, corpus, ranks, device="gpu"), ranks), 7)
    assert "no GPU that this process can use" in said and "trireme doctor" in said and "device: cpu" in said, said


def test_a_number_too_high(tmp_path, corpus):  # noqa: F811
    said = last_words(train(write_run(tmp_path, corpus, 1, device="emulated:2,gpus=2"), 1), 3)
    assert "can use 2 GPUs, numbered from 0 to 1" in said, said


KINDS = "is not a device; there are auto, cpu (cpu:avx2, ... for one vector unit), reference, gpu (gpu:2, ... "
GPU_OPTIONS = ("is not an option of `device: gpu`; there are the number of a GPU, from 0 to 4095, and blocking (each kernel is waited for), "
               "with a comma between them, as in gpu:2,blocking")
WRONG_NAMES = {
    **{f"{kind}:": f"`{kind}:` has nothing behind its colon; `{kind}` alone has no options" for kind in ("gpu", "cpu", "emulated", "guarded", "reference")},
    **{name: f"`{name}` has an empty option; options have one comma between them" for name in ("gpu:,", "emulated:warp=64,", "guarded:,seed=1", "gpu:2,,blocking")},
    **{name: f"`{name}` says {twice} twice; say it once" for name, twice in {
        "emulated:warp=32,warp=64": "warp", "guarded:seed=1,rank=0,seed=1": "seed", "emulated:gpus=2,gpus=2": "gpus",
        "gpu:blocking,blocking": "blocking", "emulated:peer=1,peer": "peer", "gpu:2,2": "2"}.items()},
    **{f"gpu:{words}": f"`{words}` {GPU_OPTIONS}" for words in ("5000", "-1", "2:blocking", "1.5", "+1", "0x1", "2 ", "all", "peer=1")},
    "gpu:2,3": "`gpu` takes the number of one GPU, not 2 and 3; ",
    "emulated:peer=2": "`peer=2` of `device: emulated` should be peer=NUMBER, 0 or 1",
    "emulated:warp=48": "`warp=48` of `device: emulated` should be warp=32 or warp=64",
    "emulated:fail_kernel=0": "`fail_kernel=0` of `device: emulated` should be fail_kernel=NUMBER, a whole number from 1 on",
    "reference:fast": "`reference` takes nothing more; not `:fast`",
    **{name: f"`{name}` {KINDS}" for name in (" gpu", "GPU", "gpu ", "auto:2", "cuda")},
}  # fmt: skip


@pytest.mark.parametrize("ranks", RANKS)
def test_wrong_names(tmp_path, corpus, ranks):  # noqa: F811
    """In a run file, and on a command line: the key, the value and what is allowed, once, whatever the machine has."""
    path = write_run(tmp_path, corpus, ranks)
    plain = path.read_text()
    for name, expected in WRONG_NAMES.items():
        path.write_text(json.dumps({**json.loads(plain), "device": name}))
        said = last_words(train(path, ranks), 3)
        assert said.startswith(f"trireme: `device`: {expected}") and said.endswith("run.yaml)"), said
    path.write_text(plain)
    for name in ("gpu:", "gpu:2:blocking", "emulated:peer=2"):
        said = last_words(train(path, ranks, f"device={name}"), 3)
        assert said.startswith(f"trireme: --set device={name}: `device`: {WRONG_NAMES[name]}"), said


def test_wrong_names_that_are_near_to_one(tmp_path, corpus):  # noqa: F811
    for name, meant in {" gpu": "gpu", "GPU": "gpu", "gpu0": "gpu", "Emulated:warp=64": "emulated", "auto:": "auto"}.items():
        said = last_words(train(write_run(tmp_path, corpus, 1, device=name), 1), 3)
        assert f"; did you mean `{meant}`?" in said, said


@needs_mpi
@pytest.mark.parametrize("device, shared", [("emulated", True), ("emulated:gpus=2", False), ("emulated:gpus=2,1", True), ("emulated:gpus=3", False)])
def test_ranks_take_them_in_turn(tmp_path, corpus, device, shared):  # noqa: F811
    done = train(write_run(tmp_path, corpus, 2, device=device), 2, "optimizer.steps=2", "checkpoint.every=0", "evaluation.every=0")
    assert done.returncode == 0, done.stderr
    said = re.findall(r".*more ranks than GPUs.*", done.stderr)
    assert len(said) == shared, done.stderr
    assert not shared or "up to 2 ranks share one" in said[0] and f"emulated:{1 if ',1' in device else 0})" in said[0], said


@pytest.mark.parametrize("ranks", RANKS)
def test_what_others_have_taken(tmp_path, corpus, ranks):  # noqa: F811
    """Another process fills the GPU: the plan refuses the run, and says so, before a step."""
    device = f"emulated:memory={200 * MIB},taken={(200 - 33 * ranks) * MIB}"
    path = write_run(tmp_path, corpus, ranks, device=device, model=dict(family="gpt2", num_layers=2, hidden_size=128, num_heads=2, vocab_size=257, max_sequence=16))
    said = last_words(train(path, ranks), 6)
    assert "(of 200.00 MiB; others, and the driver for this program, have taken " in said, said
    assert ("and 2 ranks share the rest" in said) == (ranks == 2), said
    assert "reduce layout.micro_batch" in said or "raise layout.zero" in said, said


def test_dry_run_names_it(tmp_path, corpus):  # noqa: F811
    done = trireme("train", write_run(tmp_path, corpus, 1, device="emulated:gpus=4,3"), "--dry-run", "--verbose")
    assert " on emulated (GPU 3 at emulated:3)\n" in done.stdout and "device: emulated (GPU 3 at emulated:3)" in done.stdout, done.stdout


def test_doctor(tmp_path):
    """doctor reports GPUs and compilers, and checks the options of --compile."""
    findings = {check["name"]: check for check in json.loads(trireme("doctor", "--json", "--quick").stdout)["checks"]}
    assert "GPU 0" in findings or "looked_for" in findings["GPUs"], findings
    for name in ("NVRTC", "hipRTC", "cuBLASLt", "hipBLASLt"):
        assert findings[name].get("path", "").startswith("/") or "not found" in findings[name]["value"], findings[name]
    for words in ([], ["sm_90a"], ["", tmp_path], [",", tmp_path], ["a" * 40, tmp_path], ["sm_90a", tmp_path, "more"]):
        assert "--compile" in trireme("doctor", "--compile", *words, status=2).stderr
    assert "--compile goes alone" in trireme("doctor", "--json", "--compile", "sm_90a", tmp_path, status=2).stderr
    assert "takes chips and a folder" in trireme("doctor", "--compile", "sm_90a", "", status=2).stderr


@pytest.mark.parametrize("chips, status, expected", [
    ("i860", 7, "`i860` is not a chip that is known here: NVRTC "),
    ("sm_90a,i860", 7, "`i860` is not a chip that is known here: NVRTC "),
    ("sm_999", 7, "`sm_999` is not a chip that is known here; did you mean `sm_90a`? NVRTC "),
    ("sm_12", 7, "`sm_12` is not a chip that is known here; did you mean `sm_120a`? NVRTC "),
    ("sm_90", 7, "`sm_90` is not a chip that is known here; did you mean `sm_90a`? NVRTC "),  # no GPU's name: nothing would find them
    ("sm_0090a", 7, "`sm_0090a` is not a chip"),
    ("sm_", 7, "`sm_` is not a chip"),
    ("SM_90A", 7, "`SM_90A` is not a chip that is known here; did you mean `sm_90a`? NVRTC "),
    ("sm_90a ", 7, "`sm_90a ` is not a chip that is known here; did you mean `sm_90a`? NVRTC "),
    ("sm_90a,,gfx90a", 2, "`` is not a chip"),
])  # fmt: skip
def test_compile_for_a_chip_that_is_none(tmp_path, chips, status, expected):
    """Told before the chips in front of it are compiled for, which takes minutes."""
    env = dict(os.environ, LD_LIBRARY_PATH=str(STAND_IN), TRI_STAND_IN="")
    said = trireme("doctor", "--compile", chips, tmp_path / "kernels", status=status, env=env).stderr
    assert expected in said, said
    assert said.count("\n") == 1, said
    assert status == 2 or re.search(r"NVRTC \S+ \(/\S+\) compiles for (sm_\d+ )+(sm_\d+a ?)+[.;]", said), said
    assert not (tmp_path / "kernels").exists()


def test_doctor_numbers_gpus():
    """JSON has the names of the text, such as `GPU 1`, and the model and chip of each GPU; GEMM speeds name their GPU."""
    env = dict(os.environ, LD_LIBRARY_PATH=str(STAND_IN), TRI_STAND_IN="gpus=2")
    checks = json.loads(trireme("doctor", "--json", env=env).stdout)["checks"]
    gpus = [(check["name"], check["model"], check["chip"]) for check in checks if check["name"].startswith("GPU")]
    assert gpus == [("GPU 0", "stand-in 0", "sm_90a"), ("GPU 1", "stand-in 1", "sm_90a")]
    assert {(check["name"], check.get("gpu")) for check in checks} >= {(f"product{words}", gpu) for words in (" in fp32", " in bf16", "s by") for gpu in (0, 1)}
    assert len({(check["name"], check.get("gpu")) for check in checks}) == len(checks)


def test_doctor_lists_all_gpus():
    env = dict(os.environ, LD_LIBRARY_PATH=str(STAND_IN), TRI_STAND_IN="gpus=70")
    checks = json.loads(trireme("doctor", "--json", "--quick", env=env).stdout)["checks"]
    assert [check["name"] for check in checks if check["name"].startswith("GPU ")] == [f"GPU {i}" for i in range(70)]


@pytest.mark.parametrize("folder, name, version, path", [("stand-in", "cuBLASLt", "13.1.0", "libcublasLt.so.13"),
                                                         ("stand-in-hip", "hipBLASLt", "1.0.0", "libhipblaslt.so.1")])  # fmt: skip
def test_doctor_names_the_library_of_products(folder, name, version, path):
    """Without a product, too: which version, and where it was found."""
    env = dict(os.environ, LD_LIBRARY_PATH=str(STAND_IN.parent / folder), TRI_STAND_IN="")
    for words in (["--quick"], []):
        checks = json.loads(trireme("doctor", "--json", *words, env=env).stdout)["checks"]
        (library,) = (check for check in checks if check["name"] == name)
        assert library["mark"] == "ok" and library["version"] == version and library["path"] == str(STAND_IN.parent / folder / path), library
        assert words or f"{name} {version}" in [check["value"] for check in checks if check["name"] == "products by"]


def test_doctor_of_a_library_of_products_that_is_too_new():
    env = dict(os.environ, LD_LIBRARY_PATH=str(STAND_IN), TRI_STAND_IN="cublaslt=99.1")
    checks = json.loads(trireme("doctor", "--json", "--quick", env=env).stdout)["checks"]
    (library,) = (check for check in checks if check["name"] == "cuBLASLt")
    assert library["mark"] == "warning" and library["value"] == f"{STAND_IN}/libcublasLt.so.13 cannot be used", library
    assert "is cuBLASLt 99.1.0, and this program knows versions from 12.0 to 13. It comes with" in library["advice"], library


def test_doctor_of_a_gpu_that_cannot_be_opened():
    env = dict(os.environ, LD_LIBRARY_PATH=str(STAND_IN), TRI_STAND_IN="fail=cuDevicePrimaryCtxRetain:1:719")
    (gpu,) = (check for check in json.loads(trireme("doctor", "--json", "--quick", env=env).stdout)["checks"] if check["name"] == "GPU 0")
    assert gpu["mark"] == "warning" and gpu["value"] == "CUDA lists it, but it cannot be opened" and "chip" not in gpu, gpu
    assert "719" in gpu["advice"] and gpu["advice"].endswith("shows which kernel it is"), gpu["advice"]
