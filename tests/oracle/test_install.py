"""An installed tree, moved to another place and used by an ordinary user with an empty home: its programs and libraries work and find their
files, and its completions and manual pages agree with the program."""
import ctypes
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shutil
import struct
import subprocess
import tempfile
import time

import pytest

PROGRAM = pathlib.Path(os.environ["TRIREME"]).resolve()
BUILD = PROGRAM.parent
ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = (BUILD / "libtrireme.so").exists()
PAGES = (BUILD / "man" / "stamp").exists()

pytestmark = pytest.mark.skipif(shutil.which("cmake") is None or not (BUILD / "cmake_install.cmake").exists(),
                                reason="there is no cmake, or the program does not lie in its build folder")
needs_library = pytest.mark.skipif(not LIBRARY or shutil.which("pkg-config") is None, reason="this build has no libtrireme, or no pkg-config")
needs_pages = pytest.mark.skipif(not PAGES, reason="this build has no manual pages")

RUN = """model: {family: llama, num_layers: 2, hidden_size: 32, num_heads: 4, ffn_size: 64, vocab_size: 257, max_sequence: 32}
data: {train: corpus/train, sequence: 32}
layout: {tensor: 2, micro_batch: 2}
optimizer: {global_batch: 4, steps: 3, lr: 1.0e-3}
checkpoint: {every: 1}
output: run
"""


def nobody(words):
    """The command as a user without rights."""
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        return words
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *words]


def install(prefix, environment=None):
    """Installs, and returns the names of the installed files. Takes a lock, because the list is in the build folder, which tests share."""
    with open(BUILD / "CMakeCache.txt") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], capture_output=True, text=True, timeout=120, env=environment)
        assert done.returncode == 0, done.stderr
        return (BUILD / "install_manifest.txt").read_text()


class Tree:
    """PREFIX, and a HOME in which the user may write."""

    def __init__(self, folder):
        first = folder / "first"
        self.manifest = install(first)
        self.prefix, self.home = folder / "moved", folder / "home"
        first.rename(self.prefix)
        self.home.mkdir()
        self.home.chmod(0o777)
        # What only this tree has: found, it was found here.
        (self.prefix / "share/trireme/configs/models/only-here.yaml").write_text(
            (ROOT / "configs/models/gpt2-1.5b.yaml").read_text())
        self.lib = next(path.parent for path in self.prefix.rglob("trireme.pc")).parent if LIBRARY else self.prefix / "lib"
        self.environment = {"PATH": f"{self.prefix}/bin:{os.environ['PATH']}", "HOME": str(self.home), "TMPDIR": str(self.home),
                            "PKG_CONFIG_PATH": str(self.lib / "pkgconfig"), "LD_LIBRARY_PATH": str(self.lib), "LC_ALL": "C.UTF-8",
                            **{name: value for name, value in os.environ.items() if name.startswith(("OMP_", "OMPI_", "HWLOC_")) and
                               not name.endswith("tmpdir_base")}}

    def run(self, *words, fails=False, **more):
        done = subprocess.run(nobody([str(word) for word in words]), capture_output=True, errors="replace", cwd=self.home, timeout=120,
                              env={**self.environment, **more})
        assert (done.returncode != 0) == fails, (words, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        return done.stderr if fails else done.stdout


@pytest.fixture(scope="module")
def tree():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-install-"))
    folder.chmod(0o755)
    mask = os.umask(0o022)  # or an ordinary user could not read what root installs
    yield Tree(folder)
    os.umask(mask)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def trained(tree):
    """A run of two ranks, trained by the installed program."""
    (tree.home / "text.txt").write_text("".join(f"Line {i}: pull {i * 7919 % 1000} times.\n" for i in range(300)))
    (tree.home / "run.yaml").write_text(RUN)
    tree.run("trireme", "prepare", "--tokenizer", "bytes", "--out", "corpus", "text.txt")
    tree.run("trireme", "train", "run.yaml", "-n", "2")
    return tree.home / "run"


def commands(tree):
    return [line.split("\t")[0] for line in tree.run("trireme", "complete", "").splitlines() if re.match(r"[a-z]+\t", line)]


# ---- the program ---------------------------------------------------------------------------------------------------


def test_it_knows_itself_and_its_presets(tree):
    assert tree.run("trireme", "--version").startswith("trireme ")
    assert {"plan", "simulate", "train"} <= set(commands(tree))
    ask = ["--model", "only-here", "--cluster", "a100-node", "--devices", "4", "--global-batch", "64", "--json"]
    best = json.loads(tree.run("trireme", "plan", *ask))[0]
    one = json.loads(tree.run("trireme", "simulate", *ask, "--layout", "pipeline=2,micro_batch=4,recompute=full"))
    assert 0 < best["step_s"] <= one["step_s"]
    assert "\n  chatml " in tree.run("trireme", "help", "templates", TRIREME_CONFIGS="/nowhere")
    # A site's own presets go before it.
    own = tree.home / "own/models"
    own.mkdir(parents=True)
    shutil.copy(ROOT / "configs/models/gpt2-124m.yaml", own / "only-here.yaml")
    assert "124.4M" in tree.run("trireme", "inspect", "only-here", TRIREME_CONFIGS=str(tree.home / "own"))
    assert "1.6B" in tree.run("trireme", "inspect", "only-here") or "1.56B" in tree.run("trireme", "inspect", "only-here")


def test_version_says_what_it_runs_with(tree):
    """As the libraries themselves do: the program's are those that ldd finds."""
    first, *lines = tree.run("trireme", "--version").splitlines()
    said = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines}
    assert first == f"trireme {re.search(r'project.trireme VERSION ([0-9.]+)', (ROOT / 'CMakeLists.txt').read_text()).group(1)}"
    if "MPI" in said and said["MPI"].startswith("none"):
        return
    loaded = dict(re.findall(r"(lib\w+)[.\w]*\.so\S* => (\S+)", subprocess.run(["ldd", PROGRAM], capture_output=True, text=True).stdout))

    class Version(ctypes.Structure):
        _fields_ = [("major", ctypes.c_int), ("minor", ctypes.c_int), ("patch", ctypes.c_int)]

    onednn = ctypes.CDLL(loaded["libdnnl"])
    onednn.dnnl_version.restype = ctypes.POINTER(Version)
    version = onednn.dnnl_version().contents
    assert said["oneDNN"].startswith(f"{version.major}.{version.minor}.{version.patch}, threads by ")
    assert said["BLAS"] == os.path.realpath(loaded["libblas"]) and said["LAPACK"] == os.path.realpath(loaded["liblapack"])
    assert "built with " in said["MPI"] and re.match("(Open MPI|MPICH)", said["MPI"])
    assert said["devices"].split() == ["cpu", "reference", "gpu"]


def test_a_build_knows_itself(tmp_path):
    """Commit and day are those of the source and of SOURCE_DATE_EPOCH, and a build in which nothing is new compiles nothing."""
    source, file = tmp_path / "source", tmp_path / "info.c"
    source.mkdir()

    def build(**more):
        subprocess.run(["cmake", f"-DFILE={file}", f"-DSOURCE={source}", "-DCOMPILER=C 1", "-P", ROOT / "cmake/build_info.cmake"], check=True,
                       capture_output=True, env={**os.environ, **more})
        return file.read_text(), file.stat().st_mtime_ns

    text, written = build(SOURCE_DATE_EPOCH="86400")
    assert '"1970-01-02"' in text and '"unknown"' in text and '"C 1"' in text
    assert build(SOURCE_DATE_EPOCH="86400") == (text, written)
    (source / ".commit").write_text("from-a-package\n")
    assert '"from-a-package"' in build()[0]
    git = ["git", "-C", source, "-c", "user.name=n", "-c", "user.email=e"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout[:12]
    assert f'"{commit}"' in build()[0]
    (source / ".commit").write_text("changed\n")
    assert f'"{commit}-dirty"' in build()[0]


def test_it_trains_on_two_ranks(tree, trained):
    assert json.loads((trained / "summary.json").read_text())["steps"] == 3
    assert len((trained / "metrics.jsonl").read_text().splitlines()) == 3


def test_nothing_points_to_where_it_was_built(tree):
    """Neither in text nor as a path in which libraries are looked for; the last place of presets alone is the source."""
    for path in sorted(tree.prefix.rglob("*")):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            assert str(BUILD).encode() not in data.replace(str(ROOT / "configs").encode(), b""), path
            if data[:4] != b"\x7fELF" and path.suffix != ".a":
                assert str(ROOT).encode() not in data, path
            assert b"trireme-install-" not in data, path


def test_no_device_for_tests(tree):
    """Neither their program nor a symbol of theirs."""
    assert "trireme-test" not in tree.manifest and "kernel_check" not in tree.manifest
    for path in (path for path in tree.prefix.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF" or path.suffix == ".a"):
        assert not re.search(rb"\0tri_(emulat|guarded)", path.read_bytes()), path


def test_uninstall_leaves_nothing(tree, tmp_path):
    """Removes an installation for a package (DESTDIR)."""
    environment = {**os.environ, "DESTDIR": str(tmp_path)}
    (tmp_path / "manifest").write_text(install("/usr", environment))
    assert (tmp_path / "usr/bin/trireme").exists()
    (tmp_path / "install_destdir.txt").write_text(str(tmp_path))

    def uninstall(*more, **variables):
        plain = {name: value for name, value in os.environ.items() if name != "DESTDIR"} | variables
        return subprocess.run(["cmake", f"-DMANIFEST={tmp_path}/manifest", *more, "-P", ROOT / "cmake/uninstall.cmake"], capture_output=True, text=True, env=plain)

    for refused, words in ((uninstall("-DPREFIX=/opt"), "went to /usr, not to /opt"), (uninstall(DESTDIR="/elsewhere"), "not DESTDIR=/elsewhere")):
        assert refused.returncode != 0 and words in " ".join(refused.stderr.split()) and (tmp_path / "usr/bin/trireme").exists(), refused.stderr
    count = len((tmp_path / "manifest").read_text().splitlines())
    for options, removed in ((["-DPREFIX=/usr"], count), ([], 0)):
        done = uninstall(*options)
        assert done.returncode == 0 and f"removed {removed} of {count} files from {tmp_path}/usr" in done.stdout, done.stdout + done.stderr
    assert [str(path) for path in (tmp_path / "usr").rglob("*") if path.is_file() or path.name == "trireme"] == []


@needs_library
@needs_pages
def test_packages_have_all_of_it_once(tree):
    """Each file that is installed is in one package by debian/*.install or left out by name, and no line is for nothing."""
    lists = {path.name: [line.split()[0] for line in path.read_text().splitlines()] for path in
             [*(ROOT / "debian").glob("*.install"), ROOT / "debian/not-installed"]}
    assert set(lists) >= {"trireme.install", "libtrireme-dev.install"} and any(re.match(r"libtrireme[\d.]+\.install", name) for name in lists)
    version = re.search(r"project.trireme VERSION (\d+\.\d+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
    assert f"libtrireme{version}.install" in lists and f"Package: libtrireme{version}\n" in (ROOT / "debian/control").read_text()
    prefix, used = pathlib.PurePosixPath(tree.manifest.splitlines()[0]), set()
    prefix = next(folder.parent for folder in prefix.parents if folder.name == "bin")
    for line in tree.manifest.splitlines():
        # Debian has a library folder for each kind of machine.
        file = "usr/" + re.sub(r"^lib(/[\w-]+-linux-gnu)?/", "lib/machine/", str(pathlib.PurePosixPath(line).relative_to(prefix)))
        holders = {(name, pattern) for name, patterns in lists.items() for pattern in patterns
                   if re.match(re.escape(pattern).replace(r"\*", "[^/]*") + "($|/)", file)}
        assert len(holders) == 1, (file, holders)
        used |= holders
    assert used == {(name, pattern) for name, patterns in lists.items() for pattern in patterns}


@pytest.mark.parametrize("ending,shell,stubs", [
    (".lua", "lua5.4", """function myFileName() return arg[1] end
function help() end
function whatis() end
function prepend_path(name, value) print(name .. "=" .. value) end
dofile(arg[1])"""),
    ("", "tclsh", """set ModulesCurrentModulefile [lindex $argv 0]
proc module-whatis {text} {}
proc conflict {name} {}
proc prepend-path {name value} { puts "$name=$value" }
source [lindex $argv 0]""")])
def test_modules_lead_to_the_tree(tree, ending, shell, stubs):
    """By what they set, whichever of their languages is here."""
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    script = tree.home / f"stubs{ending}"
    script.write_text(stubs)
    module = next((tree.prefix / "share/trireme/modulefiles/trireme").glob("*.lua" if ending else "*[0-9]"))
    said = dict(line.split("=") for line in tree.run(shell, script, module).splitlines())
    assert pathlib.Path(said["PATH"]) == tree.prefix / "bin" and pathlib.Path(said["MANPATH"]) == tree.prefix / "share/man"
    assert pathlib.Path(said["LD_LIBRARY_PATH"]) == tree.lib or not LIBRARY


# ---- manual pages --------------------------------------------------------------------------------------------------


def rendered(tree, page):
    """Its text as it is read, in one line; warnings of the typesetter fail."""
    done = subprocess.run(["man", "--warnings", "-l", page], capture_output=True, text=True,
                          env={"PATH": os.environ["PATH"], "MANWIDTH": "2000", "LC_ALL": "C.UTF-8", "HOME": str(tree.home)})
    assert done.returncode == 0 and done.stderr == "", (page, done.stderr)
    return " ".join(re.sub(r".\x08", "", done.stdout).split())


@needs_pages
@pytest.mark.skipif(shutil.which("man") is None or shutil.which("groff") is None and shutil.which("nroff") is None, reason="there is no man")
def test_pages_say_what_the_program_says(tree):
    pages = {path.stem: path for path in (tree.prefix / "share/man").rglob("*.[15]")}
    assert set(pages) == {"trireme", *(f"trireme-{name}" for name in commands(tree)), *(f"trireme-{name}" for name in topics(tree))}
    for name in commands(tree):
        text = rendered(tree, pages[f"trireme-{name}"])
        for line in tree.run("trireme", name, "--help").splitlines():
            words = " ".join(re.sub("^(usage|example): ", "", line.strip()).split())
            assert words in text or words.replace("  ", " ") in text, (name, line)
    text = rendered(tree, pages["trireme"])
    for name in commands(tree):
        assert f"trireme-{name}(1)" in text
    header = (ROOT / "src/base/status.h").read_text()
    for number in set(re.findall(r"exit status (\d+)", header)):
        assert re.search(rf" {number} [a-z]", text.split("EXIT STATUS")[1]), number


def topics(tree):
    keys = tree.run("trireme", "complete", "help", "").splitlines()
    return [line.split("\t")[0] for line in keys if line.split("\t")[1].startswith("keys of a ")]


@needs_pages
@pytest.mark.skipif(shutil.which("man") is None, reason="there is no man")
def test_pages_have_every_key(tree):
    assert set(topics(tree)) == {"run", "study", "model", "cluster", "system"}
    for topic in topics(tree):
        text = rendered(tree, tree.prefix / f"share/man/man5/trireme-{topic}.5")
        keys = [line.split()[0] for line in tree.run("trireme", "help", topic).splitlines()[1:]]
        assert len(keys) > 5
        for key in keys:
            assert key.startswith("model.") and topic == "run" or f" {key} (" in text, key


@needs_pages
@pytest.mark.skipif(shutil.which("mandoc") is None, reason="there is no mandoc")
def test_pages_are_clean(tree):
    pages = sorted((tree.prefix / "share/man").rglob("*.[15]"))
    done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", *pages], capture_output=True, text=True)
    assert done.stdout == ""


# ---- completion ----------------------------------------------------------------------------------------------------


def test_every_option_is_offered_and_told(tree):
    """The options in a command's table are those in its help."""
    for name in commands(tree):
        offered = {line.split("\t")[0] for line in tree.run("trireme", "complete", name, "--").splitlines()}
        text = tree.run("trireme", name, "--help")
        told = set(re.findall(r"--[a-z][a-z-]*", text))
        assert set(re.findall(r"^  (--[a-z][a-z-]*)", text, re.MULTILINE)) <= offered, (name, "see tri_command.options", offered)
        # Options of other commands that a text mentions; and `-n RANKS` is also --ranks.
        elsewhere = {"train": {"--ranks"}, "tune": {"--ranks"}, "calibrate": {"--ranks"}}.get(name, set())
        assert offered - {"--help"} - elsewhere <= told, (name, offered - told)
        for option in offered:
            assert option == "--help" or tree.run("trireme", "complete", name, option[:-1]).startswith(option[:-1])


LINES = [("trireme pla", "plan"), ("trireme plan --model only-h", "only-here"), ("trireme plan --clus", "--cluster"),
         ("trireme simulate --layout tensor=2,recompute=fu", "recompute=full"), ("trireme train --set layout.schedule=zero-b", "zero-bubble"),
         ("trireme train run.ya", "run.yaml"), ("trireme eval --precision=fp6", "fp64"), ("trireme help stu", "study")]


def typed(tree, shell, line, wanted):
    """Returns the output of a terminal after the line and a tab, once it contains `wanted`."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(tree.home)
        words = nobody(["env", "-i", *(f"{name}={value}" for name, value in tree.environment.items()), "TERM=dumb", *shell])
        os.execvp(words[0], words)
    shown, deadline, sent = "", time.monotonic() + 20, False
    try:
        while time.monotonic() < deadline and not (sent and wanted in shown.split(line)[-1] or wanted in shown.split("GO>")[-1]):
            if not sent and "GO>" in shown:
                os.write(terminal, (line + "\t").encode())
                sent = True
            if select.select([terminal], [], [], 0.1)[0]:
                shown += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|[\r\x07]", "", os.read(terminal, 4096).decode(errors="replace"))
    except OSError:
        pass
    os.kill(process, 9)
    os.waitpid(process, 0)
    os.close(terminal)
    return shown.split("GO>")[-1]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize("line,wanted", LINES)
def test_bash(tree, trained, line, wanted):
    start = tree.home / "bashrc"
    start.write_text(f"PS1='GO>'; source {tree.prefix}/share/bash-completion/completions/trireme\n")
    assert wanted in typed(tree, ["bash", "--noprofile", "--rcfile", str(start), "-i"], line, wanted)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
@pytest.mark.parametrize("line,wanted", LINES)
def test_zsh(tree, trained, line, wanted):
    start = tree.home / "zsh"
    start.mkdir(exist_ok=True)
    start.chmod(0o777)
    (start / ".zshrc").write_text(f"fpath=({tree.prefix}/share/zsh/site-functions $fpath); autoload -Uz compinit; compinit -u -d {start}/dump; "
                                  "unsetopt zle_bracketed_paste 2>/dev/null; PS1='GO>'\n")
    assert wanted in typed(tree, ["env", f"ZDOTDIR={start}", "zsh", "-d", "-i"], line, wanted)


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
def test_fish(tree, trained):
    for line, wanted in LINES:
        said = tree.run("fish", "--no-config", "-c", f"source {tree.prefix}/share/fish/vendor_completions.d/trireme.fish; complete -C '{line}'")
        assert wanted in said, (line, said)


# ---- the library ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def examples(tree):
    """Each example, built as its README says."""
    built = tree.home / "built"
    built.mkdir()
    sources = sorted((tree.prefix / "share/doc/trireme/examples").glob("*.c"))
    assert len(sources) >= 4
    for source in sources:
        flags = tree.run("pkg-config", "--cflags", "--libs", "trireme").split()
        subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", source, *flags, "-lm", "-o", built / source.stem],
                       check=True)
    return built


@needs_library
def test_examples_of_planning(tree, examples):
    ask = ["--model", "only-here", "--cluster", "a100-node", "--devices", "4", "--global-batch", "64", "--json"]
    said = tree.run(examples / "plan_layout", "only-here", "a100-node", "4").splitlines()
    wanted = json.loads(tree.run("trireme", "plan", *ask))
    assert [line.split()[0] for line in said] == [f"{one['step_s']:.3f}" for one in wanted]
    layout = "pipeline=2,micro_batch=4,recompute=full"
    said = tree.run(examples / "simulate", "only-here", "a100-node", "4", layout)
    assert json.loads(said[said.index("{"):]) == json.loads(tree.run("trireme", "simulate", *ask, "--layout", layout))
    assert "did you mean" in tree.run(examples / "simulate", "only-hear", "a100-node", "4", layout, fails=True)


@needs_library
def test_example_of_a_checkpoint(tree, trained, examples):
    torch = pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch")
    newest = sorted((trained / "checkpoints").glob("step-*"))[-1]
    wanted = safetensors.load_file(newest / "model.safetensors")
    first, *lines = tree.run(examples / "read_checkpoint", "run").splitlines()
    assert first.endswith("step 3")
    said = {line.split()[0]: float(line.split()[-1]) for line in lines}
    assert set(said) == set(wanted)
    for name, norm in said.items():
        assert norm == pytest.approx(float(torch.linalg.vector_norm(wanted[name].double())), rel=1e-8)
    # The mean of two, which torch takes too, and which the program reads.
    two = sorted((trained / "checkpoints").glob("step-*"))[-2:]
    tree.run(examples / "average_checkpoints", "mean", *two)
    mean, parts = safetensors.load_file(tree.home / "mean/model.safetensors"), [safetensors.load_file(path / "model.safetensors") for path in two]
    for name, values in mean.items():
        assert torch.equal(values, ((parts[0][name].double() + parts[1][name].double()) / 2).float())
    assert set(mean) == set(wanted)
    tree.run("trireme", "inspect", "mean")
    tree.run("trireme", "generate", "mean", "--prompt", "Line", "--tokens", "3", "--tokenizer", "corpus/tokenizer.json")
    assert "already exists" in tree.run(examples / "average_checkpoints", "mean", *two, fails=True)


@needs_library
def test_example_of_a_corpus(tree, trained, examples):
    """By the format's own description: ids of two bytes in the .bin, and in the .idx where documents begin."""
    (tree.home / "short.txt").write_text("pull\n")
    said = tree.run(examples / "write_corpus", "corpus/tokenizer.json", "made", "text.txt", "short.txt")
    texts = [(tree.home / name).read_bytes() for name in ("text.txt", "short.txt")]
    ids = [[*text, 256] for text in texts]
    data = (tree.home / "made.bin").read_bytes()
    assert list(struct.unpack(f"<{len(data) // 2}H", data)) == ids[0] + ids[1]
    index = (tree.home / "made.idx").read_bytes()
    assert index[:9] == b"MMIDIDX\0\0"
    version, kind, sequences, documents = struct.unpack_from("<QBQQ", index, 9)
    assert (version, kind, sequences, documents) == (1, 8, 2, 3)
    assert struct.unpack_from("<2i", index, 34) == tuple(map(len, ids))
    assert said == f"{len(data) // 2} tokens of 2 documents; the first 8: \"{texts[0][:8].decode()}\"\n"


@needs_library
def test_headers_alone_and_in_another_language(tree):
    """Each header by itself in C99 and C++17, and what they declare is what the library shows."""
    flags = tree.run("pkg-config", "--cflags", "trireme").split()
    declared = set()
    for header in sorted((tree.prefix / "include/trireme").glob("*.h")):
        source = f'#include "trireme/{header.name}"\n#include "trireme/{header.name}"\nextern int there_is_something;\n'
        for compiler in [["cc", "-xc", "-std=c99"], *([["g++", "-xc++", "-std=c++17"]] if shutil.which("g++") else [])]:
            subprocess.run([*compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", *flags, "-"], input=source, text=True, check=True)
        declared |= set(re.findall(r"^TRIREME_API [^;]*?\b(trireme_\w+)\(", header.read_text(), re.MULTILINE))
    shown = subprocess.run(["nm", "-D", "--defined-only", tree.lib / "libtrireme.so"], capture_output=True, text=True, check=True).stdout
    assert declared == {line.split()[-1] for line in shown.splitlines()}
    needs = subprocess.run(["ldd", tree.lib / "libtrireme.so"], capture_output=True, text=True, check=True).stdout
    assert not re.search(r"lib(mpi|open-|dnnl|pmi)", needs)


@needs_library
def test_statically_and_by_cmake(tree):
    """The archive by pkg-config, and the shared library by find_package."""
    example = tree.prefix / "share/doc/trireme/examples/plan_layout.c"
    flags = [flag.replace("-ltrireme", "-l:libtrireme.a") for flag in
             tree.run("pkg-config", "--static", "--cflags", "--libs", "trireme").split()]
    subprocess.run(["cc", example, *flags, "-o", tree.home / "static"], check=True)
    assert "libtrireme" not in subprocess.run(["ldd", tree.home / "static"], capture_output=True, text=True, check=True).stdout
    ask = ("gpt2-1.5b", "a100-node", "4")
    by_hand = tree.run(tree.home / "static", *ask, TRIREME_CONFIGS=f"{tree.prefix}/share/trireme/configs")
    project = tree.home / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.22)\nproject(plan C)\nfind_package(trireme 0.1 REQUIRED)\n"
                                            f"add_executable(plan {example})\ntarget_link_libraries(plan trireme::trireme)\n")
    subprocess.run(["cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={tree.prefix}"], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", project / "build"], check=True, capture_output=True)
    assert tree.run(project / "build/plan", *ask) == by_hand


@needs_library
def test_wrong_calls_are_told(tree, monkeypatch):
    """Through ctypes: arguments that are missing, unknown, out of range or not found give a status and an error message, and never a crash."""
    monkeypatch.setenv("TRIREME_CONFIGS", str(tree.prefix / "share/trireme/configs"))
    library = ctypes.CDLL(str(tree.lib / "libtrireme.so"))
    library.trireme_message.restype = ctypes.c_char_p
    library.trireme_version.restype = ctypes.c_char_p
    library.trireme_answers_figure.restype = ctypes.c_double
    library.trireme_checkpoint_name.restype = ctypes.c_char_p
    for name in ("count", "destroy"):
        getattr(library, f"trireme_answers_{name}").restype = ctypes.c_int64
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    assert library.trireme_version().decode() in tree.run("trireme", "--version")

    def fails(status, words, name, *arguments):
        assert getattr(library, name)(*arguments) == status, (name, library.trireme_message())
        assert words in library.trireme_message().decode(), library.trireme_message()

    question, answers = pointer(), pointer()
    assert library.trireme_question_create(ctypes.byref(question)) == 0
    fails(1, "did you mean model", "trireme_question_set", question, text(b"modle"), text(b"x"))
    fails(1, "`value` is NULL", "trireme_question_set", question, text(b"model"), None)
    fails(1, "no key `json`", "trireme_question_set", question, text(b"json"), text(b""))
    fails(1, "--model is missing", "trireme_plan", question, ctypes.c_int64(5), ctypes.byref(answers))
    for key, value in [(b"model", b"gpt2-1.5b"), (b"cluster", b"a100-node"), (b"devices", b"4"), (b"global-batch", b"x")]:
        assert library.trireme_question_set(question, text(key), text(value)) == 0
    fails(1, "--global-batch takes a whole number", "trireme_plan", question, ctypes.c_int64(5), ctypes.byref(answers))
    assert library.trireme_question_set(question, text(b"global-batch"), text(b"64")) == 0
    fails(1, "the 0 best", "trireme_plan", question, ctypes.c_int64(0), ctypes.byref(answers))
    fails(3, "does not divide", "trireme_simulate", question, text(b"tensor=2"), ctypes.byref(answers))
    assert not answers
    assert library.trireme_plan(question, ctypes.c_int64(2), ctypes.byref(answers)) == 0
    assert library.trireme_answers_count(answers) == 2
    assert library.trireme_answers_figure(answers, ctypes.c_int64(0), 0) > 0
    for index, figure in [(2, 0), (-1, 0), (0, 99)]:
        value = library.trireme_answers_figure(answers, ctypes.c_int64(index), figure)
        assert value != value
    library.trireme_answers_destroy(answers)
    library.trireme_question_destroy(question)

    made = pointer()
    fails(4, "no-such", "trireme_checkpoint_open", text(b"/no-such"), ctypes.byref(made))
    fails(4, "no-such", "trireme_corpus_open", text(b"/no-such"), ctypes.byref(made))
    fails(1, "1 to", "trireme_corpus_writer_create", text(b"/no-such/x"), ctypes.c_int64(0), ctypes.byref(made))
    assert library.trireme_tokenizer_create(text(b"/no-such.json"), ctypes.byref(made)) != 0 and not made
    assert library.trireme_tokenizer_create(text(b"bytes"), ctypes.byref(made)) == 0
    ids, out, size = (ctypes.c_int32 * 2)(104, 999), text(), ctypes.c_size_t()
    fails(1, "id 999", "trireme_tokenizer_decode", made, ids, ctypes.c_int64(2), ctypes.byref(out), ctypes.byref(size))
    assert library.trireme_tokenizer_decode(made, ids, ctypes.c_int64(1), ctypes.byref(out), ctypes.byref(size)) == 0
    assert (out.value, size.value) == (b"h", 1)
    library.trireme_free(out)
    library.trireme_tokenizer_destroy(made)
    writer, shape = pointer(), (ctypes.c_int64 * 2)(2, 0)
    assert library.trireme_checkpoint_writer_create(text(b"/no-such/folder/x"), text(b"{}"), ctypes.byref(writer)) == 0
    fails(1, "not a length of dimension 1", "trireme_checkpoint_writer_add", writer, text(b"a"), 0, 2, shape, ids)
    fails(1, "there is no type 9", "trireme_checkpoint_writer_add", writer, text(b"a"), 9, 1, shape, ids)
    assert library.trireme_checkpoint_writer_add(writer, text(b"a"), 3, 1, shape, ids) == 0
    fails(1, "two tensors", "trireme_checkpoint_writer_add", writer, text(b"a"), 3, 1, shape, ids)
    library.trireme_checkpoint_writer_destroy(writer)
    for end in ("corpus_close", "corpus_writer_destroy", "checkpoint_close", "tokenizer_destroy", "question_destroy", "answers_destroy", "free"):
        getattr(library, f"trireme_{end}")(None)
