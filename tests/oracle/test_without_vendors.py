"""Nothing of a GPU vendor's is needed to start or to run the program: no symbol of theirs is missing from it, none of their libraries
comes with it, and on a machine that has none (a library in front of the loader says so) it trains, and says what it looked for where
a GPU was asked for."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from parity import TRIREME, program_of, trireme

SYMBOLS = re.compile(r"(__)?(cu[A-Z]|cuda|nvrtc|nvJitLink|nvml|cublas|cudnn|nccl|hip|rocblas|rccl|hsa_|amd_comgr|miopen)\w*")
LIBRARIES = re.compile(r"lib(cuda|nvrtc|nvidia|nvJitLink|cublas|cudnn|nccl|amdhip|hiprtc|hipblas|rocblas|rccl|hsa-runtime|MIOpen|amd_comgr)")
TOOLS = pathlib.Path(os.environ["TRIREME_TOOLS"])


def words_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def missing_symbols(program):
    found = (line.split() for line in words_of("nm", "-D", "--undefined-only", program).splitlines())
    return sorted(words[-1] for words in found if SYMBOLS.fullmatch(words[-1].split("@")[0]))


def libraries(file):
    """Those of a vendor that the loader brings for it: the name, and the file."""
    lines = (line.split() for line in words_of("ldd", file).splitlines())
    return {words[0]: words[2] if len(words) > 2 else "" for words in lines if LIBRARIES.match(words[0])}


def test_no_symbol_and_no_library(program=TRIREME):
    assert missing_symbols(program) == []
    lines = (line.split() for line in words_of("ldd", program).splitlines())
    mpi = [words[2] for words in lines if words[0].startswith("libmpi") and len(words) > 2]
    by_mpi = {name for file in mpi for name in libraries(file)}  # one that knows GPUs may bring them
    assert set(libraries(program)) - by_mpi == set()


@pytest.mark.skipif(shutil.which("cc") is None, reason="SKIPPED: there is no cc")
def test_what_is_planted_is_found(tmp_path):
    (tmp_path / "driver.c").write_text("int cuInit(unsigned flags) { return (int)flags; }\nint cublasLtCreate(void) { return 0; }\n")
    (tmp_path / "program.c").write_text("int cuInit(unsigned); int cublasLtCreate(void); int culprit(void) { return 0; }\n"
                                        "int main(void) { return cuInit(0) + cublasLtCreate() + culprit(); }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "driver.c", "-o", "libcuda.so.1"], cwd=tmp_path, check=True)
    subprocess.run(["cc", "program.c", "-o", "program", "./libcuda.so.1"], cwd=tmp_path, check=True)
    assert missing_symbols(tmp_path / "program") == ["cuInit", "cublasLtCreate"]
    with pytest.raises(AssertionError):
        test_no_symbol_and_no_library(tmp_path / "program")
    (tmp_path / "moved").mkdir()
    (tmp_path / "libcuda.so.1").rename(tmp_path / "moved" / "libcuda.so.1")
    subprocess.run(["cc", "program.c", "-o", "program", "-Lmoved", "-l:libcuda.so.1"], cwd=tmp_path, check=True)
    assert list(libraries(tmp_path / "program")) == ["libcuda.so.1"]


@pytest.fixture(scope="module")
def run_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bare")
    (folder / "text.txt").write_text("".join(f"Stroke {i} of {i * 7919 % 1000}.\n" for i in range(200)))
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt")
    run = dict(model=dict(family="gpt2", num_layers=1, hidden_size=16, num_heads=2, vocab_size=257, max_sequence=16),
               data=dict(train=str(folder / "data" / "train"), sequence=16), layout=dict(micro_batch=1),
               optimizer=dict(global_batch=2, steps=3, lr=1e-2), threads=1, precision="fp32", output=str(folder / "run"))
    (folder / "run.yaml").write_text(json.dumps(run))
    return folder / "run.yaml"


def bare(folder, *words):
    """The program where no library of a vendor's is to be had; and what it looked for."""
    log = folder / "looked-for"
    log.write_text("")
    environment = {**os.environ, "LD_PRELOAD": str(TOOLS / "libno_vendors.so"), "TRI_NO_VENDORS_LOG": str(log)}
    done = subprocess.run([program_of(*words), *map(str, words)], capture_output=True, text=True, timeout=300, env=environment)
    return done, log.read_text().split()


@pytest.mark.parametrize("device", ["auto", "cpu", "emulated"])
def test_it_trains(run_file, tmp_path, device):
    done, _ = bare(tmp_path, "train", run_file, "--set", f"device={device}", "--set", f"output={tmp_path}/run")
    assert done.returncode == 0, done.stderr
    assert "dlopen" not in done.stderr and "/proc/none/" not in done.stderr, done.stderr


def test_the_doctor_looks_and_goes_on(tmp_path):
    done, looked_for = bare(tmp_path, "doctor")
    plain = subprocess.run([TRIREME, "doctor"], capture_output=True, text=True, timeout=300)
    assert done.returncode == plain.returncode, done.stdout + done.stderr
    assert any(LIBRARIES.match(name.rsplit("/", 1)[-1]) for name in looked_for) or not looked_for


def test_a_gpu_that_is_asked_for_is_missed(run_file, tmp_path):
    done, looked_for = bare(tmp_path, "train", run_file, "--set", "device=gpu", "--set", f"output={tmp_path}/run")
    assert done.returncode not in (0, 70) and done.returncode > 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("trireme: ")]
    assert len(lines) == 1, done.stderr
    assert any(name.rsplit("/", 1)[-1].startswith("libcuda.so") for name in looked_for), looked_for
    assert any(name.rsplit("/", 1)[-1].startswith("libamdhip64.so") for name in looked_for), looked_for
