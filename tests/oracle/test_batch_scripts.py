"""The batch scripts, run with stand-ins for their schedulers: how many ranks they start and how, and what they do when their
time is over. Slurm itself: tests/launch/test_slurm.py."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest
from parity import TRIREME, trireme, yaml_of

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
MODEL = dict(family="gpt2", num_layers=2, hidden_size=32, num_heads=4, vocab_size=257, max_sequence=32)
NAMES = ["slurm/cluster.sbatch", "slurm/frontier.sbatch", "slurm/lumi.sbatch", "pbs/polaris.pbs", "flux/cluster.flux"]

# Each notes its words, one a line. srun and flux run: take the launcher's options off, and start as many ranks as there are.
START = """tasks=$TASKS
while [ $# -gt 0 ] && [ "${1#*trireme}" = "$1" ]; do shift; done
[ -z "$DIRECT" ] || exec "$@"
root=; "$REAL_MPIEXEC" --version 2>&1 | grep -q -e "Open MPI" -e OpenRTE && root="--allow-run-as-root --oversubscribe --bind-to none"
exec "$REAL_MPIEXEC" $root -n "$tasks" "$@"
"""
NOTE = '#!/bin/bash\nfor word in "$@"; do printf "%s\\n" "$word" >>"$NOTES/${0##*/}"; done\n'
STAND_INS = {
    "srun": START, "mpiexec": START, "scontrol": "exit 0\n", "qsub": "env | grep -E '^(RUN|SCRIPT|RESTARTS)=' >>\"$NOTES/qsub\"\n",
    "qstat": 'echo "Job Id: $2"; echo "    Resource_List.place = scatter"; echo "    Resource_List.walltime = $WALLTIME"\n',
    "flux": 'case "$1 $2" in\n  "resource list") case $5 in *nnodes*) echo 1 ;; *) echo 8 ;; esac ;;\n  "run "*) ' + START + ";;\nesac\n"}
# A stand-in for the program: it ends with the exit status $ENDS, and on a signal with that of a run.
PROGRAM = """#!/bin/bash
echo "$*" >"$NOTES/program"
[ -z "$ENDS" ] || exit "$ENDS"
trap 'kill $!; exit 130' USR1
touch "$NOTES/started"
sleep 25 & wait
exit 1
"""


def prepare(tmp_path, script, **variables):
    """Puts the stand-ins at the front of PATH, and returns the environment that the script's scheduler sets, and the folder of notes."""
    notes, programs = tmp_path / "notes", tmp_path / "bin"
    notes.mkdir()
    programs.mkdir()
    for name, text in STAND_INS.items():
        (programs / name).write_text(NOTE + text)
        (programs / name).chmod(0o755)
    (tmp_path / "nodes").write_text("x1\n")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "PBS_", "FLUX_"))}
    environment |= dict(PATH=f"{programs}:{os.environ['PATH']}", NOTES=str(notes), DIRECT="", ENDS="", WALLTIME="02:00:00",
                        REAL_MPIEXEC=shutil.which(os.environ.get("TRIREME_MPIEXEC", "mpiexec")) or "none",
                        SCRIPT=str(SCRIPTS / script), SLURM_JOB_ID="17", SLURM_JOB_NUM_NODES="1", SLURM_CPUS_PER_TASK="1",
                        PBS_NODEFILE=str(tmp_path / "nodes"), PBS_JOBID="17.server", PBS_O_WORKDIR=str(tmp_path),
                        OMP_THREAD_LIMIT="1")  # the script's number of threads is for the cores of its cluster
    environment |= {key: str(value) for key, value in variables.items()}
    return environment, notes


def line_of(script, words, environment):
    if script.startswith("pbs"):
        environment["RUN"] = " ".join(words)
        words = []
    return ["bash", str(SCRIPTS / script), *words]


def noted(notes, name):
    return (notes / name).read_text().split("\n")[:-1] if (notes / name).exists() else []


@pytest.mark.skipif(shutil.which("mpiexec") is None, reason="SKIPPED: there is no mpiexec")
@pytest.mark.parametrize("script,ranks,launcher", [
    ("slurm/cluster.sbatch", 2, ["srun", "--mpi=pmix", "--kill-on-bad-exit=1"]),
    ("slurm/frontier.sbatch", 8, ["srun", "--ntasks=8", "--gpu-bind=closest", "--kill-on-bad-exit=1"]),
    ("slurm/lumi.sbatch", 8, ["srun", "--ntasks=8", "--ntasks-per-node=8", "--kill-on-bad-exit=1"]),
    ("pbs/polaris.pbs", 4, ["mpiexec", "-n", "4", "--ppn", "--cpu-bind", "list:24-31:16-23:8-15:0-7"]),
    ("flux/cluster.flux", 8, ["flux", "run", "-N", "1", "--tasks-per-node=8", "exit-on-error"])], ids=NAMES)
def test_run(tmp_path, script, ranks, launcher):
    (tmp_path / "text.txt").write_text("".join(f"Line {i}: pull {i * 7919 % 1000} times.\n" for i in range(500)))
    trireme("prepare", "--tokenizer", "bytes", "--out", tmp_path / "data", tmp_path / "text.txt")
    path = tmp_path / "run.yaml"
    path.write_text(yaml_of(dict(
        model=MODEL, data=dict(train=str(tmp_path / "data/train"), sequence=16), layout=dict(micro_batch=1),
        optimizer=dict(global_batch=8, steps=3, lr=1e-3), checkpoint=dict(every=0), output=str(tmp_path / "run"))))
    environment, notes = prepare(tmp_path, script, TRIREME=TRIREME, TASKS=ranks)
    done = subprocess.run(line_of(script, [str(path), "--set", "seed=7"], environment), capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    words = noted(notes, launcher[0])
    assert set(launcher[1:]) <= set(words), words
    assert words[words.index(TRIREME):] == [TRIREME, "train", str(path), "--set", "seed=7", "--resume", "auto"]
    assert sum(1 for _ in open(tmp_path / "run/metrics.jsonl")) == 3
    assert f"{ranks} ranks" in done.stderr and "trireme: the job is done" in done.stderr
    assert json.loads((tmp_path / "run/summary.json").read_text())["steps"] == 3


def again(notes):
    """Returns the scheduler's commands that put the job into the queue again."""
    flux = noted(notes, "flux")
    return noted(notes, "scontrol") + noted(notes, "qsub") + (flux[flux.index("--parent"):] if "--parent" in flux else [])


@pytest.mark.parametrize("script", NAMES)
def test_time_that_is_over(tmp_path, script):
    """When the time is over, the run gets a signal and saves, and the job is queued again, up to the limit; a job that failed or is done is not."""
    program = tmp_path / "trireme"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    last = dict(SLURM_RESTART_COUNT=5, RESTARTS=5) if script.startswith("slurm") else dict(RESTARTS=0)
    cases = dict(told=({}, 130, "the time is over; "), last=(last, 130, "RESTARTS allows"),
                 failed=(dict(ENDS=9), 9, "status 9 before its time"), wrong=(dict(ENDS=3), 3, "fails in the same way until that is changed"),
                  done=(dict(ENDS=0), 0, "the job is done"))
    begun = {}
    for name, (variables, _, _) in cases.items():
        (tmp_path / name).mkdir()
        # 300 seconds before the end, one after the start: PBS has no signal, and the script a clock.
        environment, notes = prepare(tmp_path / name, script, TRIREME=program, DIRECT=1, TASKS=1, WALLTIME="0:05:01", **variables)
        line = line_of(script, ["a.yaml", "--set", "seed=7"], environment)
        begun[name] = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment), notes
    for name in ("told", "last") if not script.startswith("pbs") else ():
        process, notes = begun[name]
        end = time.monotonic() + 30
        while not (notes / "started").exists() and time.monotonic() < end:
            time.sleep(0.01)
        process.send_signal(signal.SIGUSR1)
        if script.startswith("flux"):  # which tells the ranks itself
            time.sleep(0.2)
            children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            assert len(children) == 1
            os.kill(int(children[0]), signal.SIGUSR1)
    want = dict(slurm=["requeue", "17"], flux=["--parent", "batch", str(SCRIPTS / script), "a.yaml", "--set", "seed=7"],
                pbs=["-W", "depend=afterany:17.server", "-v", "RUN,SCRIPT,TRIREME,RESTARTS", str(SCRIPTS / script),
                     "RESTARTS=99", "RUN=a.yaml --set seed=7", f"SCRIPT={SCRIPTS / script}"])[script.split("/")[0]]
    for name, (_, status, text) in cases.items():
        process, notes = begun[name]
        said, _ = process.communicate(timeout=30)
        assert process.returncode == status and text in said, (name, process.returncode, said)
        assert noted(notes, "program") == ["train a.yaml --set seed=7 --resume auto"]
        queued = again(notes)
        if script.startswith("pbs"):
            queued = queued[:5] + sorted(queued[5:])
        assert queued == (want if name == "told" else []), (name, queued)


@pytest.mark.parametrize("script", NAMES)
def test_text(script):
    path = SCRIPTS / script
    text = path.read_text()
    assert subprocess.run(["bash", "-n", path]).returncode == 0
    needed = dict(slurm=["#SBATCH " + option for option in ("--signal=B:USR1@", "--requeue", "--nodes=", "--ntasks-per-node=", "--time=",
                                                           "--open-mode=append", "--output=trireme-%j.log")],
                  pbs=["#PBS -l select=", "#PBS -l place=scatter", "#PBS -l walltime=", "#PBS -r y", "#PBS -A "],
                  flux=["#flux: --signal=USR1@5m", "#flux: -t ", "#flux: -N ", "#flux: --output=trireme-{{id}}.log"])
    for line in needed[script.split("/")[0]]:
        assert f"\n{line}" in text, line
    # A script that we could not try says so.
    assert ("cluster.sbatch" in script) == (re.search(r"Never run (on|under) \w+ by us", text) is None)
    environment = {key: value for key, value in os.environ.items() if key != "RUN"}
    done = subprocess.run(["bash", path], capture_output=True, text=True, env=environment)
    assert done.returncode == 2 and re.match("usage: (sbatch|qsub|flux batch) ", done.stderr)


def test_all_are_tested():
    assert sorted(NAMES) == sorted(str(path.relative_to(SCRIPTS)) for folder in ("slurm", "pbs", "flux") for path in (SCRIPTS / folder).iterdir())


def test_same_end():
    """The lines after srun are the same in all scripts for Slurm, so that a test of one script holds for all."""
    texts = [path.read_text() for path in SCRIPTS.glob("slurm/*")]
    assert len({text.split("ranks=$!\n")[1] for text in texts}) == 1
    assert len({re.search(r"(?m)^ranks=.*\n^trap .*\n", text).group() for text in texts}) == 1


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="SKIPPED: there is no shellcheck")
def test_shellcheck():
    done = subprocess.run(["shellcheck", *(SCRIPTS / name for name in NAMES)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *os.sys.argv[1:]]))
