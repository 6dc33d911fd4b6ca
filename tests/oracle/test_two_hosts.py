"""Two hosts on one machine: two network namespaces joined by a virtual cable, each with a name of its own. A real mpiexec
starts a rank on each through a stand-in for the remote shell, and nothing but the cable is between them."""
import json
import os
import shutil
import stat
import subprocess

import pytest
from parity import TRIREME, trireme, yaml_of

LAUNCHER = os.environ.get("TRIREME_MPIEXEC", "mpiexec")
# address: name. Names are the machine's, so those of another process that runs this test must differ, and processes of the runner are
# forked from one that has read this file: create_hosts() chooses them. Addresses are the namespaces' own.
FIRST, SECOND = "10.77.31.1", "10.77.31.2"
HOSTS = {}
MODEL = dict(family="gpt2", num_layers=4, hidden_size=64, num_heads=4, vocab_size=257, max_sequence=32)


def run(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True)


def remove_hosts():
    for name in HOSTS.values():
        run("ip", "netns", "del", name)


def create_hosts():
    """None, or why it cannot be done."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return "making network namespaces takes root and the program `ip`"
    HOSTS.update({FIRST: f"trireme-a-{os.getpid()}", SECOND: f"trireme-b-{os.getpid()}"})
    remove_hosts()
    steps = [["ip", "netns", "add", name] for name in HOSTS.values()]
    steps.append(["ip", "link", "add", "cable", "netns", HOSTS[FIRST], "type", "veth", "peer", "name", "cable", "netns",
                  HOSTS[SECOND]])
    for address, name in HOSTS.items():
        steps += [["ip", "-n", name, "address", "add", f"{address}/24", "dev", "cable"],
                  ["ip", "-n", name, "link", "set", "lo", "up"], ["ip", "-n", name, "link", "set", "cable", "up"]]
    steps.append(["unshare", "--uts", "--mount", "true"])
    for step in steps:
        done = run(*step)
        if done.returncode != 0:
            remove_hosts()
            return f"`{' '.join(step)}` said: {done.stderr.strip()}"
    return None


@pytest.fixture(scope="module")
def hosts():
    if shutil.which(LAUNCHER) is None:
        pytest.skip("SKIPPED: there is no mpiexec")
    version = run(LAUNCHER, "--version").stdout
    if "Open MPI" not in version and "OpenRTE" not in version:
        pytest.skip("SKIPPED: only Open MPI is told here to use the cable; what lies below MPICH sees one kernel's memory")
    reason = create_hosts()
    if reason is not None:
        pytest.skip(f"SKIPPED: no namespaces here: {reason}")
    yield
    remove_hosts()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.txt").write_text("".join(f"Line {i}: the rowers pull {i * 7919 % 1000} times.\n" for i in range(2000)))
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt")
    return folder / "data"


def write_run(folder, corpus, name, **layout):
    path = folder / f"{name}.yaml"
    path.write_text(yaml_of(dict(
        model=MODEL, data=dict(train=str(corpus / "train"), sequence=32), layout=dict(micro_batch=1, **layout),
        optimizer=dict(global_batch=8, steps=6, lr=1e-3), checkpoint=dict(every=0), seed=5, output=str(folder / name))))
    return path


def losses(folder, name):
    lines = [json.loads(line) for line in open(folder / name / "metrics.jsonl")]
    return [(line["loss"], line["grad_norm"]) for line in lines]


def enter(address):
    name = HOSTS[address]
    return ["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c", f'hostname {name}; exec "$@"', "sh"]


def write_remote_shell(folder):
    """`remote-shell [options] HOST COMMAND...`, as ssh has it."""
    path = folder / "remote-shell"
    lines = ["#!/bin/sh", 'while [ "${1#-}" != "$1" ]; do shift; done', "host=$1; shift", "case $host in"]
    lines += [f'  {address}) exec nsenter --net=/run/netns/{name} unshare --uts --mount sh -c "mount -t sysfs sys /sys; hostname {name}; $*" ;;' for address, name in HOSTS.items()]
    path.write_text("\n".join([*lines, "esac", "exit 255", ""]))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def launch_line(shell):
    network = "10.77.31.0/24"
    return [LAUNCHER, "--allow-run-as-root", "--host", ",".join(f"{a}:1" for a in HOSTS), "-n", "2",
            "--mca", "plm_rsh_agent", shell, "--mca", "btl", "self,tcp", "--mca", "pml", "ob1",
            "--mca", "btl_tcp_if_include", network, "--mca", "oob_tcp_if_include", network, "--bind-to", "none"]


def bytes_through_the_cable():
    return int(run("ip", "netns", "exec", HOSTS[FIRST], "cat", "/sys/class/net/cable/statistics/tx_bytes").stdout)


@pytest.mark.parametrize("layout", [dict(data=2, zero=1), dict(data=2, zero=3), dict(pipeline=2), dict(tensor=2)],
                         ids=["data-zero1", "data-zero3", "pipeline", "tensor"])
def test_train(tmp_path, corpus, hosts, layout):
    local = write_run(tmp_path, corpus, "local", **layout)
    trireme("train", local, "-n", 2)
    far = write_run(tmp_path, corpus, "far", **layout)
    before = bytes_through_the_cable()
    command = [*enter(FIRST), *launch_line(write_remote_shell(tmp_path)), TRIREME, "train", far]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    moved = bytes_through_the_cable() - before
    assert losses(tmp_path, "far") == losses(tmp_path, "local")
    summary = json.loads((tmp_path / "far/summary.json").read_text())
    assert summary["host"] == HOSTS[FIRST]
    hidden, tokens = MODEL["hidden_size"], 6 * 8 * 32
    least = dict(data=6 * 12 * hidden * hidden * 4 * 4, pipeline=tokens * hidden * 4, tensor=tokens * hidden * 4 * 4 * 2)
    assert moved > min(least[key] for key in layout if key in least), (moved, least)
