"""A build without MPI and oneDNN: its commands give the results of the whole program, and missing commands are reported."""
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHOLE = os.environ["TRIREME"]
FOLDER = pathlib.Path(WHOLE).resolve().parent / "without-running"
RUNNING = ["train", "prepare", "tune", "generate", "eval", "import", "export", "calibrate", "compare", "doctor", "board"]

pytestmark = pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no cmake")


def configure(folder, *options):
    """Configures a build, and returns its log. Nothing is inherited from the surrounding build."""
    done = subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Debug", *options], capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stderr
    return " ".join((done.stdout + done.stderr).split())


@pytest.fixture(scope="module")
def planner():
    """Built into a folder that is kept, so that the next time only what has changed is compiled."""
    FOLDER.mkdir(exist_ok=True)
    with open(FOLDER / "lock", "w") as lock:  # one test at a time builds there
        fcntl.flock(lock, fcntl.LOCK_EX)
        configure(FOLDER, "-DTRIREME_WITHOUT_RUNNING=ON")
        done = subprocess.run(["cmake", "--build", FOLDER, "--target", "trireme", "plan_links", "--parallel", "2"], capture_output=True,
                              text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    return FOLDER / "trireme"


def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


COMMANDS = [
    ["plan", "--model", "frontier-22b", "--cluster", "frontier", "--devices", 32, "--global-batch", 64, "--json"],
    ["simulate", "--model", "frontier-22b", "--cluster", "frontier", "--devices", 16, "--layout", "tensor=8,pipeline=2",
     "--global-batch", 32, "--json"],
    ["simulate", "--model", "llama-3-8b", "--cluster", "dgx-h100", "--devices", 16, "--layout", "tensor=2,zero=1",
     "--sequence", 4096, "--global-batch", 32, "--stages"],
    ["validate", "--json"],
    ["inspect", "llama-3-8b", "--all"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(map(str, command[:4])))
def test_it_plans_as_the_whole_program(planner, command):
    status, said, error = run(planner, *command)
    assert status == 0, error
    assert (status, said) == run(WHOLE, *command)[:2]


def test_it_inspects_checkpoints(planner, tmp_path):
    """Verified, from a folder of a run's checkpoints, compared; and a damaged one is found."""
    (tmp_path / "text.txt").write_text("All the world's a stage, and all the men and women merely players.\n" * 200)
    assert run(WHOLE, "prepare", "--tokenizer", "bytes", "--out", tmp_path / "corpus", tmp_path / "text.txt")[0] == 0
    sets = ["model={family: gpt2, num_layers: 2, hidden_size: 32, num_heads: 2, vocab_size: 257, max_sequence: 32}",
            f"data.train={tmp_path}/corpus/train", "data.sequence=32", "optimizer.lr=0.001", "optimizer.steps=2", "optimizer.global_batch=2",
            "layout.micro_batch=2", "checkpoint.every=1", f"output={tmp_path}/out", "device=reference", "precision=fp64"]
    (tmp_path / "small.yaml").write_text("{}\n")
    status, _, error = run(WHOLE, "train", tmp_path / "small.yaml", *[word for one in sets for word in ("--set", one)])
    assert status == 0, error
    for given in [[tmp_path / "out", "--verify"], [tmp_path / "out", "--json"],
                  [tmp_path / "out/checkpoints/step-00000002", "--verify", "--json"]]:
        found = run(planner, "inspect", *given)
        assert found[0] == 0, found
        assert found == run(WHOLE, "inspect", *given)
    both = [tmp_path / "out/checkpoints/step-00000001", tmp_path / "out/checkpoints/step-00000002"]
    assert run(planner, "inspect", *both) == run(WHOLE, "inspect", *both)
    file = both[1] / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data)
    status, _, error = run(planner, "inspect", both[1], "--verify")
    assert status != 0 and "model.safetensors" in error
    assert (status, error) == run(WHOLE, "inspect", both[1], "--verify")[::2]


@pytest.mark.parametrize("command", [[name, "x"] for name in RUNNING] + [["simulate", "--against", "run", "--cluster", "frontier"]],
                         ids=lambda command: command[0])
def test_what_it_has_not_it_says_in_one_line(planner, command):
    status, said, error = run(planner, *command)
    what = command[0] if command[0] != "simulate" else "simulate --against"
    assert (status, said) == (7, "")
    assert error.startswith(f"trireme: {what} is not in this trireme, which was built without MPI or oneDNN")
    assert "libopenmpi-dev and libdnnl-dev" in error and error.count("\n") == 1


def test_help_says_it(planner):
    said = run(planner, "--help")[1]
    assert "train      not in this build" in said and "plan       find the fastest layout" in said
    assert "built without MPI or oneDNN" in run(planner, "train", "--help")[1]


def test_it_links_neither(planner):
    check = ROOT / "tests/floors/check_links.py"
    done = subprocess.run([sys.executable, check, FOLDER / "tests/plan_links", FOLDER / "libtrireme_plan.a", planner],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "check_links: 0 violations" in done.stdout


def test_without_mpi_it_is_what_there_is(tmp_path):
    """If MPI is not found, such a program is built, with a message; if the user names an MPI, the configuration fails instead."""
    said = configure(tmp_path / "auto", "-DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON")
    assert "Without MPI (on Debian libopenmpi-dev), trireme is built with plan, simulate, validate and inspect alone" in said
    done = subprocess.run(["cmake", "-S", ROOT, "-B", tmp_path / "named", "-DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON", "-DTRIREME_MPI=openmpi"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode != 0 and "MPI" in done.stderr
