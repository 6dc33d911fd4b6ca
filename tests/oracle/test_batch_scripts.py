"""The batch scripts, run with a stand-in for srun that starts the ranks through mpiexec."""
import json
import os
import pathlib
import shutil
import subprocess

import pytest
from parity import TRIREME, trireme, yaml_of

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts/slurm"
MODEL = dict(family="gpt2", num_layers=2, hidden_size=32, num_heads=4, vocab_size=257, max_sequence=32)

# Takes srun's options off, notes them, and starts as many ranks as there are.
SRUN = """#!/bin/bash
for word in "$@"; do echo "$word" >>"$SRUN_LOG"; done
tasks=$SLURM_NTASKS
while [ "${1#--}" != "$1" ]; do
  case $1 in --ntasks=*) tasks=${1#--ntasks=} ;; esac
  shift
done
root=; mpiexec --version 2>&1 | grep -q -e "Open MPI" -e OpenRTE && root="--allow-run-as-root --oversubscribe --bind-to none"
exec mpiexec $root -n "$tasks" "$@"
"""


def submit(tmp_path, script, **slurm):
    (tmp_path / "text.txt").write_text("".join(f"Line {i}: pull {i * 7919 % 1000} times.\n" for i in range(500)))
    trireme("prepare", "--tokenizer", "bytes", "--out", tmp_path / "data", tmp_path / "text.txt")
    path = tmp_path / "run.yaml"
    path.write_text(yaml_of(dict(
        model=MODEL, data=dict(train=str(tmp_path / "data/train"), sequence=16), layout=dict(micro_batch=1),
        optimizer=dict(global_batch=8, steps=3, lr=1e-3), checkpoint=dict(every=0), output=str(tmp_path / "run"))))
    srun = tmp_path / "bin/srun"
    srun.parent.mkdir()
    srun.write_text(SRUN)
    srun.chmod(0o755)
    # OMP_*: what the script sets is for its cluster's cores, not for these.
    environment = {**os.environ, "PATH": f"{srun.parent}:{os.environ['PATH']}", "TRIREME": TRIREME, "SRUN_LOG": str(tmp_path / "srun.log"),
                   **{key: str(value) for key, value in slurm.items()}}
    done = subprocess.run(["bash", SCRIPTS / script, str(path), "--set", "seed=7"], capture_output=True, text=True, env=environment)
    return done, (tmp_path / "srun.log").read_text().split("\n") if (tmp_path / "srun.log").exists() else []


@pytest.mark.skipif(shutil.which("mpiexec") is None, reason="SKIPPED: there is no mpiexec")
@pytest.mark.parametrize("script,slurm,ranks", [
    ("cluster.sbatch", dict(SLURM_NTASKS=2, SLURM_CPUS_PER_TASK=1), 2),
    ("frontier.sbatch", dict(SLURM_JOB_NUM_NODES=1, SLURM_NTASKS=8, OMP_THREAD_LIMIT=1), 8)])
def test_scripts(tmp_path, script, slurm, ranks):
    done, options = submit(tmp_path, script, **slurm)
    assert done.returncode == 0, done.stderr
    assert "--kill-on-bad-exit=1" in options and options[-3:-1] == ["--resume", "auto"]
    assert sum(1 for _ in open(tmp_path / "run/metrics.jsonl")) == 3
    assert f"{ranks} ranks" in done.stderr
    assert json.loads((tmp_path / "run/summary.json").read_text())["steps"] == 3


@pytest.mark.parametrize("script", sorted(path.name for path in SCRIPTS.glob("*.sbatch")))
def test_text(script):
    text = (SCRIPTS / script).read_text()
    assert subprocess.run(["bash", "-n", SCRIPTS / script]).returncode == 0
    for option in ("--signal=USR1@", "--requeue", "--nodes=", "--ntasks-per-node=", "--time="):
        assert f"#SBATCH {option}" in text, option
    done = subprocess.run(["bash", SCRIPTS / script], capture_output=True, text=True)
    assert done.returncode == 2 and "usage: sbatch" in done.stderr
