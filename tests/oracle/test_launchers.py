"""Launchers that do what real ones do once in a hundred thousand starts, or on machines that are not here: a script in the
place of mpiexec that plays the ranks' part, too."""
import json
import os
import re
import subprocess
import sys
import time

import pytest
from parity import TRIREME, trireme, yaml_of

REAL = os.environ.get("TRIREME_MPIEXEC", "mpiexec")
# What base/parent.h calls them.
KINDS = ["HELLO", "LINE", "PROGRESS", "NEWS", "BEAT", "WORDS", "ECHO", "CRASH", "LEAVE"]
PLAY = """#!{python}
import json, os, pathlib, signal, socket, struct, subprocess, sys, time
if "--version" in sys.argv:
    print({version!r})
    raise SystemExit
{kinds} = range({num_kinds})
here = pathlib.Path({here!r})
(here / "line.json").write_text(json.dumps([sys.argv, dict(os.environ)]))
name, token, beat_ms, machine, folder = os.environ["TRIREME_PARENT"].split(" ", 4)

class Rank:
    def __init__(self, rank):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect("\\0" + name)
        self.say(HELLO, 100000 + rank, f"{{token}} {{rank}} 2 here")

    def say(self, kind, number=0, text=""):
        self.socket.send(struct.pack("=ii", kind, number) + text.encode())

    def heard(self):
        assert self.socket.recv(1) == b"h"

    def leave(self, status):
        self.say(LEAVE, status)
        self.socket.close()

"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.txt").write_text("The rowers pull.\n" * 100)
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt")
    return folder / "data"


@pytest.fixture
def play(tmp_path, corpus):
    """Starts a run under a launcher that does this, in a folder of its own."""
    def begin(name, code, version="a launcher 1.0", env=None, **keys):
        here = tmp_path / name
        (here / "bin").mkdir(parents=True, exist_ok=True)
        path = here / "bin/mpiexec"
        path.write_text(PLAY.format(python=sys.executable, version=version, kinds=", ".join(KINDS), num_kinds=len(KINDS),
                                    here=str(here)) + code)
        path.chmod(0o755)
        (here / "run.yaml").write_text(yaml_of(dict(
            model=dict(family="gpt2", num_layers=1, hidden_size=8, num_heads=1, vocab_size=257, max_sequence=16),
            data=dict(train=str(corpus / "train"), sequence=16), optimizer=dict(global_batch=2, steps=2, lr=1e-3),
            output=str(here / "run"), **keys)))
        environment = dict(env or os.environ, PATH=f"{here}/bin:{os.environ['PATH']}")
        return subprocess.Popen([TRIREME, "train", here / "run.yaml", "-n", "2"], stderr=subprocess.PIPE, text=True, env=environment)
    return begin


def test_launcher_that_stays(play):
    """The job is over, in one of several ways, and the launcher goes on for ever: it is ended. Side by side: each takes
    what hang_timeout allows."""
    stay = "while True: signal.pause()\n"
    cases = dict(
        echoes=("for r in (Rank(0), Rank(1)):\n    r.say(ECHO, 9, 'another rank is gone')\n    r.heard()\n    r.leave(9)\n",
                9, r"trireme: another rank is gone"),
        echo=("r, other = Rank(0), Rank(1)\nr.say(ECHO, 9, 'another rank is gone')\nr.heard()\n", 9, r"trireme: another rank is gone"),
        left=("Rank(0).leave(0)\nRank(1).leave(5)\n", 9, r"trireme: the job of 2 ranks ended with status \d+, but no rank printed an error message.*"),
        failed=("r = Rank(0)\nr.say(ECHO, 5, '')\nr.leave(5)\n", 9, r"trireme: the job of 2 ranks ended with status \d+, but no rank .*"),
        well=("Rank(0).leave(0)\nRank(1).leave(0)\n", 0, None),
        own=("r, other = Rank(0), Rank(1)\nr.say(WORDS, 4, 'no such file')\nr.heard()\n", 4, r"trireme: no such file"),
        deaf=("signal.signal(signal.SIGTERM, signal.SIG_IGN)\nr = Rank(0)\nr.say(CRASH, 11)\n", 9, r"trireme: rank 0 on here was killed by signal 11.*"))
    begun = {name: play(name, code + stay, hang_timeout=1) for name, (code, _, _) in cases.items()}
    for name, (_, status, text) in cases.items():
        _, errors = begun[name].communicate()
        assert begun[name].returncode == status, (name, errors)
        said = [line for line in errors.splitlines() if line.startswith("trireme: ")]
        assert len(said) == (text is not None) and (text is None or re.fullmatch(text, said[0])), (name, errors)


def test_launchers_that_meet(play):
    """Open MPI's mpiexec fails if another one removes their common folder at that moment. No rank was started, so it is started again."""
    collide = "if int(tries.read_text()) <= {}:\n    print('  orte_session_dir failed\\n  --> Returned value Error (-1)', file=sys.stderr)\n    raise SystemExit(213)\n"
    count = "tries = here / 'tries'\ntries.write_text(str(1 + (int(tries.read_text()) if tries.exists() else 0)))\n"
    well = "Rank(0).leave(0)\nRank(1).leave(0)\n"
    for name, code, tries, status in (("once", count + collide.format(1) + well, 2, 0), ("always", count + collide.format(99), 9, 9),
                                      ("ranks", count + "r = Rank(0)\n" + collide.format(1), 1, 9)):
        process = play(name, code, hang_timeout=1)
        _, errors = process.communicate()
        assert process.returncode == status, (name, errors)
        assert int((process.args[2].parent / "tries").read_text()) == tries, name
        assert (status == 0) == ("orte_session_dir failed" not in errors), (name, errors)


def test_environment_of_other_hosts(play):
    """Open MPI's launcher passes only the named environment variables to other hosts; MPICH's passes all."""
    if "Open" not in subprocess.run([REAL, "--version"], capture_output=True, text=True).stdout:
        pytest.skip("SKIPPED: built with an MPI whose launcher takes everything along")
    process = play("line", "", version="mpiexec (OpenRTE) 4.1.4")
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    words, environment = json.loads((process.args[2].parent / "line.json").read_text())
    passed = [words[i + 1] for i, word in enumerate(words) if word == "-x"]
    assert passed == ["TRIREME_LAUNCHED", "TRIREME_PARENT", "TRIREME_STREAMS", "TRIREME_JOB"]
    assert all(environment[name] for name in passed) and re.fullmatch(r"\S+ 0", environment["TRIREME_JOB"])
    assert words[words.index("-n") + 1] == "2" and words.index("-x") < words.index(os.path.realpath(TRIREME))


def machine():
    return f"{open('/proc/sys/kernel/random/boot_id').read().strip()}/{os.readlink('/proc/self/ns/net')}"


def test_parent_that_cannot_be_reached(play, tmp_path):
    """No process serves its socket: the rank ends, and says why. Anything else is not proof that it is gone."""
    process = play("once", "")
    process.communicate()
    run = [TRIREME, "train", process.args[2]]

    def train(name, on, before=()):
        environment = dict(os.environ, TRIREME_LAUNCHED="1", TRIREME_PARENT=f"{name} token 1000 {on} {tmp_path}/words")
        return subprocess.run([*before, *run], capture_output=True, text=True, env=environment)

    name = f"trireme-test-{os.getpid()}"
    done = train(name, machine())
    assert done.returncode == 9, done.stderr
    assert re.fullmatch(r"trireme: the program that started this job is gone, and process \d+ ends with it\n", done.stderr)
    assert train(name, "another/net:[1]").returncode == 0
    hidden = ["unshare", "--mount", "sh", "-c", 'mount --bind /dev/null /proc/sys/kernel/random/boot_id && exec "$@"', "sh"]
    if subprocess.run([*hidden, "true"], capture_output=True).returncode == 0:  # takes root
        done = train(name, f"?/{os.readlink('/proc/self/ns/net')}", hidden)
        assert done.returncode == 0, (done.returncode, done.stderr)


def test_folder_of_words(play, tmp_path):
    """A rank that believes itself on another host leaves its words in a folder, which is its parent's alone and is gone
    afterwards, also if nothing was written into it."""
    far = """
(here / "folders").write_text("\\n".join(p.name for p in here.glob(".trireme-words-*")))
os.environ["TRIREME_PARENT"] = f"no-such-socket {token} {beat_ms} else/net:[1] {folder}"
at = sys.argv.index("-n") + 2
program = sys.argv[at:]
done = subprocess.run([*program, *EXTRA], stderr=subprocess.PIPE)  # which is not passed on
(here / "left").write_text("\\n".join(p.name for p in pathlib.Path(folder).iterdir()))
raise SystemExit(done.returncode)
"""
    begun = {name: play(name, far.replace("EXTRA", extra)) for name, extra in dict(fails="['--resume', '/proc/none']", well="[]").items()}
    names = set()
    for name, process in begun.items():
        _, errors = process.communicate()
        here = process.args[2].parent
        folders = (here / "folders").read_text().split()
        assert len(folders) == 1 and re.fullmatch(rf"\.trireme-words-{os.uname().nodename}-[0-9a-f]{{16}}", folders[0]), (folders, errors)
        names.update(folders)
        assert len((here / "left").read_text().split()) == (1 if name == "fails" else 0)
        assert not list(here.glob(".trireme-words-*"))
        if name == "fails":
            assert process.returncode == 4 and re.fullmatch(r"trireme: .*/proc/none.*", errors.strip()), errors
        else:
            assert process.returncode == 0, errors
    assert len(names) == 2


def test_folders_of_words_that_killed_parents_left(play, tmp_path):
    """Only this user's, with such a name, that were not touched for a day."""
    here, ago = tmp_path / "old", time.time() - 2 * 24 * 3600
    chance = "0123456789abcdef"
    folders = [f".trireme-words-else-{chance}", f".trireme-words-a-b.c-{chance}", f".trireme-words-new-{chance}",
               ".trireme-words-12", f".trireme-words-x-{chance}0", f"trireme-words-x-{chance}", f".trireme-words-foreign-{chance}"]
    for name in folders:
        (here / name / "deep").mkdir(parents=True)
        (here / name / ".x-1").write_text("9 5 0\nhalf")
        if "new" not in name:
            os.utime(here / name, (ago, ago))
    file, link = here / f".trireme-words-file-{chance}", here / f".trireme-words-link-{chance}"
    file.write_text("")
    os.utime(file, (ago, ago))
    link.symlink_to(here / folders[4])
    kept = {*folders[2:], file.name, link.name}
    if os.geteuid() == 0:
        os.chown(here / folders[6], 12345, -1)
    else:
        kept.remove(folders[6])
    process = play("old", "")
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert {p.name for p in here.iterdir() if "trireme-words" in p.name} == kept


def test_what_is_left_of_a_large_environment(play):
    """The token that identifies a job's processes is found at any place in their environment, also across two reads."""
    code = """
begin = len("TRIREME_PARENT=") + len(name) + 1
for at in (65536 - 16, 65536 - 1, 65536, 131072 - 31 - 16, 100000, 200000):
    pads = at - begin
    environment, number = {}, 0
    while pads > 0:
        some = pads if pads <= 60000 else 50000
        environment[f"PAD{number}"] = "x" * (some - 6)
        number, pads = number + 1, pads - some
    environment["TRIREME_PARENT"] = os.environ["TRIREME_PARENT"]
    child = subprocess.Popen(["/bin/sleep", "100000"], env=environment, start_new_session=True, stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(here / "children", "a") as file:
        file.write(f"{child.pid}\\n")
raise SystemExit(1)
"""
    process = play("large", code)
    process.communicate()
    children = (process.args[2].parent / "children").read_text().split()

    def is_there(pid):
        try:
            return "sleep" in open(f"/proc/{pid}/cmdline").read()
        except OSError:
            return False

    deadline = time.monotonic() + 30  # one that was killed is gone a little later on a busy machine
    while any(is_there(pid) for pid in children) and time.monotonic() < deadline:
        time.sleep(0.02)
    left = [pid for pid in children if is_there(pid)]
    for pid in left:
        os.kill(int(pid), 9)
    assert len(children) == 6 and not left


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *os.sys.argv[1:]]))
