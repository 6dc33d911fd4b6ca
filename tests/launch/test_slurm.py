"""Tests scripts/slurm/cluster.sbatch with a real Slurm (`make test-slurm`, a few minutes): a controller and two node daemons
run on this machine. Each node is a network namespace with its own host name; a virtual cable connects them, and two ranks
run on each. The tests need root, slurm-wlm and munge and are skipped where one of them is missing.

The nodes share the files of this machine. Unlike real nodes, they also share its processes and its memory."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/oracle"))

from parity import TRIREME, trireme, yaml_of  # noqa: E402

NODES = {f"trireme-a-{os.getpid()}": "10.77.51.1", f"trireme-b-{os.getpid()}": "10.77.51.2"}
A, B = NODES
MODEL = dict(family="gpt2", num_layers=2, hidden_size=64, num_heads=4, vocab_size=257, max_sequence=64)
STEPS = 120
# The Slurm plugin that starts the ranks of each MPI.
PLUGINS = {"Open MPI": "pmix", "MPICH": "pmi2"}
CONF = """ClusterName=trireme
SlurmctldHost={a}({address_a})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={here}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={here}/state
SlurmdSpoolDir={here}/spool-%n
SlurmctldPidFile={here}/controller.pid
SlurmdPidFile={here}/%n.pid
SlurmctldLogFile={here}/controller.log
SlurmdLogFile={here}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=5
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
{nodes}
PartitionName=all Nodes={a},{b} Default=YES MaxTime=INFINITE
"""
NODE = "NodeName={} NodeAddr={} CPUs=2 Sockets=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=1000"


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True)


class Cluster:
    def __init__(self, here):
        self.here, self.daemons = here, {}
        for name in ("state", "own"):
            (here / name).mkdir()
        nodes = "\n".join(NODE.format(*node) for node in NODES.items())
        (here / "slurm.conf").write_text(CONF.format(here=here, a=A, b=B, address_a=NODES[A], nodes=nodes))
        # What differs from node to node on real ones: a file system that each mounts for itself (enter).
        (here / "mpi.conf").write_text(f"PMIxCliTmpDirBase={here}/own\n")
        (here / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in NODES.items()))
        (here / "munge.key").write_bytes(os.urandom(1024))
        (here / "munge.key").chmod(0o400)

    def enter(self, node, *command):
        script = (f"mount --bind {self.here}/hosts /etc/hosts && mount -t tmpfs own {self.here}/own && hostname {node} && "
                  f'export SLURM_CONF={self.here}/slurm.conf && exec "$@"')
        return ["nsenter", f"--net=/run/netns/{node}", "unshare", "--uts", "--mount", "sh", "-c", script, "sh", *map(str, command)]

    def begin(self, name, *command):
        log = open(self.here / f"{name}.out", "a")
        self.daemons[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def begin_node(self, node):
        spool = self.here / f"spool-{node}"
        shutil.rmtree(spool, ignore_errors=True)  # as on a freshly installed node
        spool.mkdir()
        self.begin(node, *self.enter(node, "slurmd", "-D", "-N", node))

    def start(self):
        """None, or why it cannot be."""
        for name in NODES:
            run("ip", "netns", "add", name)
        steps = [["ip", "link", "add", "cable", "netns", A, "type", "veth", "peer", "name", "cable", "netns", B]]
        for name, address in NODES.items():
            steps += [["ip", "-n", name, "address", "add", f"{address}/24", "dev", "cable"],
                      ["ip", "-n", name, "link", "set", "lo", "up"], ["ip", "-n", name, "link", "set", "cable", "up"]]
        steps.append(self.enter(A, "true"))
        for step in steps:
            done = run(*step)
            if done.returncode != 0:
                return f"`{' '.join(step)}` said: {done.stderr.strip()}"
        options = [f"--{name}={self.here}/munge.{ending}" for name, ending in
                   dict([("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed")]).items()]
        self.begin("munge", "munged", "--force", "--foreground", *options)
        self.begin("controller", *self.enter(A, "slurmctld", "-D", "-c"))
        for name in NODES:
            self.begin_node(name)
        for _ in range(60):
            if self.ask("sinfo", "--noheader", "--format=%D %t").stdout.split() == ["2", "idle"]:
                return None
            time.sleep(0.5)
        return f"Slurm's daemons do not come up: {self.ask('sinfo').stderr} {(self.here / 'controller.log').read_text()[-500:]}"

    def stop(self):
        if "controller" in self.daemons:
            self.ask("scancel", "--user=root")
            time.sleep(2)
        for process in self.daemons.values():
            process.terminate()
        for process in self.daemons.values():
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
        for name in NODES:
            run("ip", "netns", "del", name)

    def ask(self, *command, **environment):
        return subprocess.run(self.enter(A, *command), capture_output=True, text=True, cwd=self.here, env={**os.environ, **environment})

    def submit(self, path, *options, program=TRIREME, plugin=None):
        """The job's number; as a user does, but for what this machine has fewer of. Open MPI is kept from /dev/shm, which the
        nodes share here."""
        done = self.ask("sbatch", "--parsable", "--cpus-per-task=1", f"--output={path.with_suffix('.log')}", *options,
                        ROOT / "scripts/slurm/cluster.sbatch", path, TRIREME=str(program), MPI=plugin or PLUGINS[mpi_of(program)],
                        OMPI_MCA_pml="ob1", OMPI_MCA_btl="self,tcp")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def facts(self, job):
        return dict(word.split("=", 1) for word in self.ask("scontrol", "show", "job", "-o", job).stdout.split() if "=" in word)

    def wait(self, job, seconds=240):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            facts = self.facts(job)
            if facts["JobState"] not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUED"):
                return facts
            time.sleep(0.5)
        raise AssertionError(f"job {job} does not end: {facts}")


def mpi_of(program):
    version = run(program, "--version").stdout
    return next((name for name in PLUGINS if name in version), "another MPI")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    missing = [name for name in ("slurmctld", "slurmd", "srun", "munged", "ip", "unshare", "nsenter") if shutil.which(name) is None]
    if os.geteuid() != 0:
        pytest.skip("SKIPPED: two nodes on one machine take root, for network namespaces")
    if missing:
        pytest.skip(f"SKIPPED: there is no {', '.join(missing)}; scripts/install-deps.sh --slurm installs Slurm")
    it = Cluster(tmp_path_factory.mktemp("slurm"))
    reason = it.start()
    if reason is not None:
        it.stop()
        pytest.skip(f"SKIPPED: no Slurm here: {reason}")
    yield it
    it.stop()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.txt").write_text("".join(f"Line {i}: the rowers pull {i * 7919 % 1000} times.\n" for i in range(2000)))
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt")
    return folder / "data"


def write_run(folder, corpus, name, steps=STEPS):
    path = folder / f"{name}.yaml"
    path.write_text(yaml_of(dict(
        model=MODEL, data=dict(train=str(corpus / "train"), sequence=64), layout=dict(micro_batch=1), precision="fp64", device="reference",
        optimizer=dict(global_batch=8, steps=steps, lr=1e-3), checkpoint=dict(every=5), seed=5, output=str(folder / name))))
    return path


def lines_of(path):
    file = path.with_suffix("") / "metrics.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def losses(path):
    return [(line["step"], line["loss"], line["grad_norm"]) for line in lines_of(path)]


def wait_for_step(path, step):
    for _ in range(600):
        if len(lines_of(path)) >= step:
            return
        time.sleep(0.1)
    raise AssertionError(path.with_suffix(".log").read_text())


@pytest.fixture(scope="module")
def whole(cluster, tmp_path_factory, corpus):
    """The losses of the undisturbed run. Disturbed runs must have the same bits, since their ranks are on two nodes as well."""
    path = write_run(tmp_path_factory.mktemp("whole"), corpus, "whole")
    assert cluster.wait(cluster.submit(path))["JobState"] == "COMPLETED"
    return losses(path)


@pytest.mark.parametrize("mpi", PLUGINS)
def test_two_nodes(cluster, tmp_path, corpus, mpi):
    """The losses are those of one rank."""
    program = next((p for p in (TRIREME, ROOT / "build/mpich/trireme") if os.path.exists(p) and mpi_of(p) == mpi), None)
    if program is None:
        pytest.skip(f"SKIPPED: there is no build for {mpi}")
    one, four = (write_run(tmp_path, corpus, name, steps=10) for name in ("one", "four"))
    trireme("train", one)
    facts = cluster.wait(cluster.submit(four, program=program))
    said = four.with_suffix(".log").read_text()
    assert facts["JobState"] == "COMPLETED" and facts["NumNodes"] == "2", said
    assert "4 ranks" in said and "trireme: the job is done" in said
    assert len(losses(four)) == 10
    for (_, *mine), (_, *others) in zip(losses(four), losses(one)):
        assert mine == pytest.approx(others, rel=1e-12)


def test_no_plugin(cluster, tmp_path, corpus):
    """srun starts four processes that do not find one another: none of them trains."""
    path = write_run(tmp_path, corpus, "alone", steps=10)
    facts = cluster.wait(cluster.submit(path, plugin="none"))
    said = path.with_suffix(".log").read_text()
    assert facts["JobState"] == "FAILED" and lines_of(path) == []
    if mpi_of(TRIREME) == "MPICH":
        assert "srun started 4 ranks (SLURM_STEP_NUM_TASKS), but they do not find one another" in said
    else:  # Open MPI ends the processes itself
        assert "PMI" in said
    assert re.search(r"trireme: the job ended with status \d+ before its time", said)


def test_time_that_is_over(cluster, tmp_path, corpus):
    """Slurm's own signal before its own time limit; the job is started again, as often as it takes, and its run is the whole one.
    Slurm looks every 30 s who has 30 s more left than was asked for: a start lasts 20 to 50 s of its minute."""
    undisturbed, path = (write_run(tmp_path, corpus, name, steps=2 * STEPS) for name in ("undisturbed", "limited"))
    cluster.wait(cluster.submit(undisturbed))
    job = cluster.submit(path, "--time=1", "--signal=B:USR1@10")
    facts = cluster.wait(job, 400)
    said = path.with_suffix(".log").read_text()
    assert facts["JobState"] == "COMPLETED" and int(facts["Restarts"]) >= 1, said
    assert re.search(r"trireme: interrupted after step \d+; its checkpoint is written", said)
    assert "trireme: the time is over; back into the queue, start 1 of 100" in said
    assert re.search(r"resuming from .*/step-\d+", said)
    assert len(losses(path)) == 2 * STEPS and losses(path) == losses(undisturbed)


def test_cancelled(cluster, tmp_path, corpus):
    """scancel: saved, and not put back into the queue."""
    path = write_run(tmp_path, corpus, "cancelled")
    job = cluster.submit(path)
    wait_for_step(path, 3)
    cluster.ask("scancel", job)
    facts = cluster.wait(job)
    time.sleep(2)
    said = path.with_suffix(".log").read_text()
    assert facts["JobState"] == "CANCELLED" and facts["Restarts"] == "0", said
    assert re.search(r"interrupted after step \d+; its checkpoint is written", said) and "back into the queue" not in said


def ranks_of(path):
    """Process and rank of those that train this run."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words, variables = ((folder / name).read_bytes().split(b"\0") for name in ("cmdline", "environ"))
            if words[1:3] == [b"train", str(path).encode()] and os.readlink(folder / "exe") == os.path.realpath(TRIREME):
                settings = dict(word.split(b"=", 1) for word in variables if b"=" in word)
                found.append((int(folder.name), int(settings[b"SLURM_PROCID"]), settings[b"SLURMD_NODENAME"].decode()))
        except (OSError, KeyError):
            pass
    return found


def test_killed_rank(cluster, tmp_path, corpus, whole):
    """The job ends at once and says so; the same line goes on."""
    path = write_run(tmp_path, corpus, "killed")
    job = cluster.submit(path)
    wait_for_step(path, 7)
    os.kill(next(process for process, rank, _ in ranks_of(path) if rank == 2), signal.SIGKILL)
    facts = cluster.wait(job, 60)
    said = path.with_suffix(".log").read_text()
    assert facts["JobState"] == "FAILED" and facts["Restarts"] == "0" and facts["ExitCode"] == "137:0", said
    assert re.search(r"srun: error: \S+: task 2: Killed", said)
    assert "trireme: the job ended with status 137 before its time" in said and "The same sbatch line goes on" in said
    assert not ranks_of(path)
    facts = cluster.wait(cluster.submit(path, "--open-mode=append"))
    assert facts["JobState"] == "COMPLETED" and losses(path) == whole


def test_lost_node(cluster, tmp_path, corpus, whole):
    """All of a node is gone: Slurm puts the job back into the queue, and it goes on when the node is back."""
    path = write_run(tmp_path, corpus, "lost")
    job = cluster.submit(path)
    wait_for_step(path, 7)
    daemon = cluster.daemons[B]
    steps = [int(p) for p in run("pgrep", "-f", f"slurmstepd: \\[{job}\\.").stdout.split()]
    steps = [p for p in steps if os.readlink(f"/proc/{p}/ns/net") == os.readlink(f"/proc/{daemon.pid}/ns/net")]
    for process in [daemon.pid, *steps, *(process for process, _, node in ranks_of(path) if node == B)]:
        os.kill(process, signal.SIGKILL)
    daemon.wait()
    # The controller would do this itself after SlurmdTimeout without an answer from the node, but that takes minutes.
    assert cluster.ask("scontrol", "update", f"NodeName={B}", "State=DOWN", "Reason=killed").returncode == 0
    for _ in range(120):
        if cluster.facts(job)["JobState"] == "PENDING":
            break
        time.sleep(0.5)
    cluster.begin_node(B)
    cluster.ask("scontrol", "update", f"NodeName={B}", "State=RESUME")
    facts = cluster.wait(job, 180)
    said = path.with_suffix(".log").read_text()
    assert facts["JobState"] == "COMPLETED" and int(facts["Restarts"]) >= 1, said
    assert losses(path) == whole


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *sys.argv[1:]]))
