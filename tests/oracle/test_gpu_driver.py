"""`device: gpu` on stand-ins for NVIDIA's driver and compiler (tests/gpu/stand_in.h): results, and the error messages for every fault of a
driver, a compiler, a GPU or a cache of compiled kernels."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy
import pytest
from parity import TOOLS, program_of
from test_device_faults import RANKS, corpus, last_words, write_run  # noqa: F401: fixtures

pytestmark = pytest.mark.cpu  # names its devices itself
SOURCE = pathlib.Path(__file__).resolve().parents[2]
STAND_IN = pathlib.Path(TOOLS).parent / "stand-in"
TYPES = dict(fp64=numpy.float64, fp32=numpy.float32, bf16=numpy.uint16)
LISTS = [(SOURCE / "src/device/gpu" / name).read_text() for name in ("calls.h", "cuda_calls.h")]
CALLS = re.findall(r"C\(\w+, (cu\w+)", "".join(LISTS))


def environment(cache, libraries=STAND_IN, **words):
    """The stand-ins in front of all else, and a cache of the test's own."""
    hidden = ("TRI_STAND_IN", "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX")
    own = {name: value for name, value in os.environ.items() if name not in hidden}
    said = ",".join(f"{name}={value}" for name, value in words.items())
    # A process that fails ends without freeing the memory of the device.
    return own | dict(LD_LIBRARY_PATH=str(libraries), TRIREME_CACHE=str(cache), TRI_STAND_IN=said, ASAN_OPTIONS="detect_leaks=0")


def tool(env, *words, given=b"", prefix=()):
    return subprocess.run([*prefix, os.path.join(TOOLS, "gpu_tool"), "gpu", *map(str, words)], input=given, capture_output=True, env=env, timeout=120)


def message(done, status):
    """The one line that is said."""
    said = done.stderr.decode()
    assert done.returncode == status, (done.returncode, said)
    assert len(said.splitlines()) == 1, said
    return said.strip()


def works(env, **options):
    done = tool(env, "zeros", 1000, **options)
    assert done.returncode == 0 and done.stdout == bytes(2000), done.stderr
    return done


def bits_of(type_, values):
    """bf16 by its bits: to nearest even."""
    if type_ != "bf16":
        return values.astype(TYPES[type_])
    single = values.astype(numpy.float32)
    if values.dtype == numpy.float64:  # one rounding: the odd neighbour in between
        odd = single.view(numpy.uint32)
        wrong = (single.astype(numpy.float64) != values) & (odd % 2 == 0)
        odd = numpy.where(wrong, odd + numpy.where(abs(values) > abs(single.astype(numpy.float64)), 1, -1).astype(numpy.int64), odd)
        single = odd.astype(numpy.uint32).view(numpy.float32)
    bits = single.view(numpy.uint32).astype(numpy.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(numpy.uint16)


def values_of(type_, bits):
    return (bits.astype(numpy.uint32) << 16).view(numpy.float32) if type_ == "bf16" else bits


# ---- results ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("count", [1, 5003])
@pytest.mark.parametrize("type_", TYPES)
def test_numbers(tmp_path, type_, count, late):
    """Sums and conversions, beside numpy's."""
    a, b = (bits_of(type_, x) for x in numpy.random.default_rng(count).normal(size=(2, count)))
    done = tool(environment(tmp_path, late=late), "numbers", type_, count, given=a.tobytes() + b.tobytes())
    assert done.returncode == 0, done.stderr
    total = bits_of(type_, values_of(type_, a) + values_of(type_, b))
    others = [other for other in TYPES if other != type_]
    expected = [total] + [bits_of(other, values_of(type_, total)) for other in others]
    assert done.stdout == b"".join(x.tobytes() for x in expected)


@pytest.mark.parametrize("late", [0, 1])
def test_rows(tmp_path, late):
    given = os.urandom(37 * 53)
    done = tool(environment(tmp_path, late=late), "rows", 37, 53, given=given)
    assert done.returncode == 0 and done.stdout == given, done.stderr


@pytest.mark.parametrize("late", [0, 1])
def test_times(tmp_path, late):
    """Work is recorded, done once for all of its rounds, and timed."""
    a, b = numpy.random.default_rng(1).normal(size=(2, 1000))
    done = tool(environment(tmp_path, late=late), "times", "fp64", 1000, 3, given=a.tobytes() + b.tobytes())
    assert done.returncode == 0 and float(done.stderr) > 0, done.stderr
    assert done.stdout == (((a + b) + b) + b).tobytes()


def test_zeros(tmp_path):
    works(environment(tmp_path))


# ---- the driver ---------------------------------------------------------------------------------------------------------


def test_no_driver(tmp_path):
    (tmp_path / "none").mkdir()
    env = environment(tmp_path, libraries=tmp_path / "none")
    if tool(env, "zeros", 1).returncode == 0:
        pytest.skip("SKIPPED: there is a GPU")
    said = message(tool(env, "zeros", 1), 7)
    assert "no GPU that this process can use" in said and "libcuda.so.1" in said, said


@pytest.mark.parametrize("words, expected", [
    (dict(gpus=0), "driver CUDA 13.0 .* shows 0 GPUs"),
    (dict(driver=11080), "driver CUDA 11.8 .* is older than CUDA 12.0.* update it to version 525 or newer"),
    (dict(fail="cuInit:1:34"), "is the toolkit's stub, not NVIDIA's driver"),
    (dict(fail="cuInit:1:803"), "of different versions: the driver was updated"),
    (dict(fail="cuInit:1:802"), "fabric manager"),
    (dict(fail="cuInit:1:999"), "nvidia-smi"),
])  # fmt: skip
def test_driver_without_gpu(tmp_path, words, expected):
    said = message(tool(environment(tmp_path, **words), "zeros", 1), 7)
    assert re.search(expected, said) and "no GPU that this process can use" in said, said


def test_library_that_is_none(tmp_path):
    """A library that cannot be opened, and one that lacks a function."""
    (tmp_path / "libcuda.so.1").write_text("no library at all")
    said = message(tool(environment(tmp_path, libraries=tmp_path), "zeros", 1), 7)
    assert "NVIDIA's driver cannot be used: libcuda.so.1: " in said, said
    (tmp_path / "libcuda.so.1").unlink()
    shutil.copy(STAND_IN / "libnvrtc.so.13", tmp_path / "libcuda.so.1")
    said = message(tool(environment(tmp_path, libraries=tmp_path), "zeros", 1), 7)
    assert f"{tmp_path}/libcuda.so.1: has no function `cuInit`" in said, said


# ---- the GPU ------------------------------------------------------------------------------------------------------------


def test_gpu_that_others_have_filled(tmp_path):
    said = message(tool(environment(tmp_path, taken=(2 << 30) - 1000), "zeros", 1), 6)
    assert said.startswith("GPU 0 (stand-in 0) has no free memory at the start: other processes use it (`nvidia-smi`"), said
    said = message(tool(environment(tmp_path, fail="cuMemAlloc_v2:2:2", taken=1 << 30), "zeros", 5000), 6)
    assert re.search(r"GPU 0 \(stand-in 0\) cannot allocate 4.88 KiB: of its 2.00 GiB, this process uses 32.00 MiB, other processes and the driver use 1.06 GiB, and 928.00 MiB are free", said), said
    said = message(tool(environment(tmp_path, fail="cuMemHostAlloc:1:2"), "rows", 3, 3, given=b"123456789"), 6)
    assert "page-locked" in said, said


FAULTS = {214: "memory is faulty", 220: "link between GPUs", 700: "dmesg", 719: "fell off the bus", 702: "serves a screen", 46: "has this GPU to itself", 999: "reboot", 805: "MPS"}


@pytest.mark.parametrize("code", FAULTS)
def test_faults_of_queued_work(tmp_path, code):
    """Told at the next wait, once, with the newest kernel before it. The first pieces are the scratch memory's zeros and the
    operands'."""
    given = bytes(2 * 8 * 100)
    said = message(tool(environment(tmp_path, fail=f"work:7:{code}"), "numbers", "fp64", 100, given=given), 11)
    assert re.match(rf"work up to kernel `add`: GPU 0 \(stand-in 0\): cuEventSynchronize returned .* \({code}, as told to the stand-in\): ", said), said
    assert FAULTS[code] in said, said


@pytest.mark.parametrize("call", CALLS)
def test_every_call_fails(tmp_path, call):
    """A GPU that falls off: whichever call is the first to say so, the program says it once, and ends."""
    given, told = bytes(2 * 8 * 100), 0
    for words in [("times", "fp64", 100, 2), ("rows", 10, 10)]:
        for number in (1, 2):
            done = tool(environment(tmp_path, fail=f"{call}:{number}:719"), *words, given=given)
            if done.returncode == 0:
                continue
            told += 1
            if call in ("cuInit", "cuDeviceGetCount") or (call == "cuDriverGetVersion"):
                assert "no GPU that this process can use" in message(done, 7)
                assert call != "cuDeviceGetCount" or b"cuDeviceGetCount returned" in done.stderr, done.stderr
            else:
                said = message(done, 11)
                assert "719" in said and "fell off the bus" in said and "stand-in 0" in said or call in ("cuDeviceGet", "cuDeviceGetName"), said
                assert call in said or call in QUIET, said
    assert told > 0 or call in NEVER, call


# Failures of these calls are not reported, but a later call reports the fault.
QUIET = {"cuDeviceGetAttribute", "cuMemGetAddressRange_v2", "cuThreadExchangeStreamCaptureMode", "cuEventQuery", "cuGraphDestroy", "cuFuncSetAttribute", "cuGraphExecDestroy",
         "cuMemFree_v2", "cuMemFreeHost", "cuStreamDestroy_v2", "cuEventDestroy_v2", "cuModuleUnload"}  # fmt: skip
# Calls that return names of errors, that release resources at the end, or that set shared memory, which these kernels do not need.
NEVER = {"cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString", "cuDevicePrimaryCtxRelease_v2", "cuMemFree_v2", "cuMemFreeHost", "cuStreamDestroy_v2", "cuEventDestroy_v2",
         "cuModuleUnload", "cuFuncSetAttribute", "cuGraphExecDestroy"}  # fmt: skip


# ---- the compiler -------------------------------------------------------------------------------------------------------


def test_unknown_chips(tmp_path):
    """A newer one takes the text for the newest that is known; an older one needs another compiler."""
    works(environment(tmp_path / "new", chip="13.5"))
    (entry,) = (tmp_path / "new").iterdir()
    assert entry.name.startswith("elements-fp32-sm_135a-") and b"chip 121, binary 0" in entry.read_bytes()
    said = message(tool(environment(tmp_path / "old", chip="7.0"), "zeros", 1), 7)
    assert "compiles for sm_75 and newer, not for sm_70" in said and "nvidia-cuda-nvrtc-cu12" in said, said


@pytest.mark.parametrize("version", ["14.0", "11.8"])
def test_compiler_of_another_major_version(tmp_path, version):
    said = message(tool(environment(tmp_path, nvrtc=version), "zeros", 1), 7)
    assert f"libnvrtc.so.13 is version {version} of NVIDIA's run-time compiler; this program knows 12 and 13" in said, said
    assert "pip install nvidia-cuda-nvrtc" in said, said


def test_compiler_that_is_newer_than_the_driver(tmp_path):
    said = message(tool(environment(tmp_path, driver=12080), "zeros", 1), 7)
    assert "driver CUDA 12.8 rejects the compiled kernels" in said and "update the driver" in said and "nvidia-cuda-nvrtc-cu12" in said, said
    works(environment(tmp_path, driver=13000, nvrtc="13.5"))  # newer by less than a major version
    said = message(tool(environment(tmp_path, driver=13000, nvrtc="13.5", chip="13.0"), "zeros", 1), 7)
    assert "CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)" in said, said


def test_compiler_that_fails(tmp_path):
    said = message(tool(environment(tmp_path, nvrtc_fails=6), "zeros", 1), 7)
    assert "does not compile device/gpu/kernels/elements.c with --gpu-architecture=sm_90a for 32 bits" in said and "elements.c(1): error: told to fail" in said, said
    said = message(tool(environment(tmp_path, nvrtc_fails=7), "zeros", 1), 7)
    assert "libnvrtc-builtins of its version, which belongs in the same folder, is missing or damaged" in said, said


def without_compiler(tmp_path):
    """The driver alone, and the toolkits of this machine out of sight."""
    alone = tmp_path / "driver"
    alone.mkdir()
    (tmp_path / "nothing").mkdir()
    shutil.copy(STAND_IN / "libcuda.so.1", alone)
    prefix = ("unshare", "--mount", "--map-root-user", "sh", "-c", f'mount --bind {tmp_path}/nothing /usr/local && exec "$@"', "sh")
    if shutil.which("unshare") is None or subprocess.run([*prefix, "true"], capture_output=True).returncode != 0:
        pytest.skip("SKIPPED: this user cannot hide the toolkits of this machine (unshare --mount)")
    return alone, prefix


def test_driver_without_compiler(tmp_path):
    """One message; but what was compiled where there is a compiler serves."""
    alone, prefix = without_compiler(tmp_path)
    done = tool(environment(tmp_path / "cache", libraries=alone), "zeros", 1, prefix=prefix)
    if done.returncode == 0 or b"as they were compiled" in done.stderr:
        pytest.skip("SKIPPED: a compiler is in a place that cannot be hidden")
    said = message(done, 7)
    assert "NVIDIA's run-time compiler (NVRTC) was not found: looked for libnvrtc.so.13, libnvrtc.so.12" in said, said
    assert "pip install nvidia-cuda-nvrtc" in said and str(tmp_path / "cache") in said, said
    works(environment(tmp_path / "cache"))
    works(environment(tmp_path / "cache", libraries=alone), prefix=prefix)


def test_folder_with_wildcards_in_its_name(tmp_path):
    """What glob(7) takes for patterns: the folder is still the one of this name."""
    alone, prefix = without_compiler(tmp_path)
    cache = tmp_path / "a[bc]*?\\x"
    works(environment(cache))
    done = tool(environment(cache, libraries=alone), "zeros", 1000, prefix=prefix)
    assert done.returncode == 0 and done.stdout == bytes(2000), done.stderr


def test_compiler_in_a_wheel(tmp_path):
    alone, prefix = without_compiler(tmp_path)
    site = tmp_path / "environment/lib/python3.11/site-packages/nvidia/cu13/lib"
    site.mkdir(parents=True)
    shutil.copy(STAND_IN / "libnvrtc.so.13", site)
    env = environment(tmp_path / "cache", libraries=alone)
    works(env | dict(VIRTUAL_ENV=str(tmp_path / "environment")), prefix=prefix)


def test_python_that_hangs(tmp_path):
    """It is asked last, and not for long."""
    alone, prefix = without_compiler(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").write_text("#!/bin/sh\nsleep 3600\n")
    (tmp_path / "bin/python3").chmod(0o755)
    env = environment(tmp_path / "cache", libraries=alone)
    done = tool(env | dict(PATH=f"{tmp_path}/bin:{env['PATH']}"), "zeros", 1, prefix=prefix)
    if done.returncode == 0 or b"as they were compiled" in done.stderr:
        pytest.skip("SKIPPED: a compiler is in a place that cannot be hidden")
    assert "was not found" in message(done, 7)


# ---- the cache ----------------------------------------------------------------------------------------------------------


def entries(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def both_entries(cache):
    """The modules of two types."""
    works(environment(cache))
    done = tool(environment(cache), "numbers", "fp64", 1, given=bytes(16))
    assert done.returncode == 0, done.stderr
    whole = entries(cache)
    assert len(whole) == 2
    return whole


def change(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


DAMAGE = dict(empty=lambda data: b"", cut=lambda data: data[:-1], header=lambda data: data[:20], longer=lambda data: data + b"x", foreign=lambda data: b"x" * 4096,
              **{f"byte {at}": lambda data, at=at: change(data, at) for at in (0, 8, 16, 30, 45, -1)})  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_cache(tmp_path, kind):
    whole = both_entries(tmp_path)
    for name, data in whole.items():
        (tmp_path / name).write_bytes(DAMAGE[kind](data))
    assert both_entries(tmp_path) == whole


def test_lying_cache(tmp_path):
    """An entry of another type under this one's name, and one that is whole and that the driver does not take."""
    whole = both_entries(tmp_path)
    first, second = whole
    (tmp_path / first).write_bytes(whole[second])
    assert both_entries(tmp_path) == whole
    for name in whole:
        (tmp_path / name).unlink()
    said = message(tool(environment(tmp_path, nvrtc_chip=80), "zeros", 1), 7)
    assert "CUDA_ERROR_NO_BINARY_FOR_GPU" in said and len(entries(tmp_path)) == 1, said
    assert both_entries(tmp_path) == whole


def test_cache_that_is_not_used_twice(tmp_path):
    """Cached kernels are used without the compiler; entries of another compiler version or chip are not used."""
    works(environment(tmp_path))
    works(environment(tmp_path, nvrtc_fails=6))
    assert tool(environment(tmp_path, nvrtc_fails=6, nvrtc="13.1"), "zeros", 1).returncode == 7
    assert tool(environment(tmp_path, nvrtc_fails=6, chip="8.0"), "zeros", 1).returncode == 7


def test_cache_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file/below", "/proc/none", "/dev/null", ""):
        works(environment(folder) | dict(HOME="/proc/none", XDG_CACHE_HOME=""))
    (tmp_path / "closed").mkdir(mode=0o555)
    works(environment(tmp_path / "closed"))


def test_entries_that_are_no_files(tmp_path):
    (name,) = (lambda: (works(environment(tmp_path / "a")), entries(tmp_path / "a"))[1])()
    for kind, make in dict(folder=os.mkdir, pipe=os.mkfifo, loop=lambda path: os.symlink(path, path)).items():
        (tmp_path / kind).mkdir()
        make(tmp_path / kind / name)
        works(environment(tmp_path / kind))


def test_entry_that_is_huge(tmp_path):
    """It is compiled again, and not read for that."""
    works(environment(tmp_path))
    (entry,) = tmp_path.iterdir()
    whole = entry.read_bytes()
    os.truncate(entry, 3 << 30)
    # Measured from a small process: ru_maxrss includes the memory before exec.
    measure = ("import os, sys\npid = os.fork()\nif pid == 0: os.execv(sys.argv[1], sys.argv[1:])\n"
               "_, status, used = os.wait4(pid, 0)\nprint(os.waitstatus_to_exitcode(status), used.ru_maxrss, file=sys.stderr)")
    done = subprocess.run([sys.executable, "-I", "-S", "-c", measure, os.path.join(TOOLS, "gpu_tool"), "gpu", "zeros", "1000"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment(tmp_path))
    code, kib = map(int, done.stderr.splitlines()[-1].split())
    assert code == 0 and kib < 512 << 10, done.stderr
    assert entry.read_bytes() == whole


def test_places_of_the_cache(tmp_path):
    env = {name: value for name, value in environment("").items() if name != "TRIREME_CACHE"}
    works(env | dict(XDG_CACHE_HOME=str(tmp_path / "xdg"), HOME=str(tmp_path / "home")))
    assert len(entries(tmp_path / "xdg/trireme")) == 1
    works({name: value for name, value in env.items() if name != "XDG_CACHE_HOME"} | dict(HOME=str(tmp_path / "home")))
    assert len(entries(tmp_path / "home/.cache/trireme")) == 1


def test_many_at_once_and_killed(tmp_path):
    """Ranks write the same entries; killed ones leave a temporary file, which the next writer removes."""
    env = environment(tmp_path)
    for _ in range(2):
        ranks = [subprocess.Popen([os.path.join(TOOLS, "gpu_tool"), "gpu", "zeros", "1000"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env) for _ in range(8)]
        for rank in ranks[:2]:
            rank.kill()
        for rank in ranks[2:]:
            assert rank.wait(120) == 0, rank.stderr.read()
        for rank in ranks:
            rank.communicate()
    whole = {name: data for name, data in entries(tmp_path).items() if name.endswith(".image")}
    (name,) = whole
    users = tmp_path / f"{name}.tmp.{os.getpid()}"  # the form of earlier versions, of a process that runs
    users.write_bytes(b"half")
    (tmp_path / name).unlink()
    works(env)
    assert sorted(entries(tmp_path)) == sorted((name, users.name)), "a killed rank's file stays, or a user's went"
    assert (tmp_path / name).read_bytes() == whole[name]


# ---- whole runs ---------------------------------------------------------------------------------------------------------


def train(path, ranks, env, *words):
    return subprocess.run([program_of(path, *words), "train", path, *(["-n", str(ranks)] if ranks > 1 else []), *words], capture_output=True, text=True, env=env, timeout=600)


def losses(folder):
    rows = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
    return [row["loss"] for row in rows if "loss" in row]


@pytest.mark.parametrize("precision", ["fp64", "bf16"])
@pytest.mark.parametrize("ranks", RANKS)
def test_train(tmp_path, corpus, ranks, precision):  # noqa: F811
    """The emulated device's losses: from the same kernels, by way of the driver. Products are the library's stand-in's, which in
    bf16 takes a bias of bf16; in fp64 all bits are equal."""
    found = {}
    for device in ("emulated", "gpu"):
        (tmp_path / device).mkdir()
        path = write_run(tmp_path / device, corpus, ranks, device=device, precision=precision)
        done = train(path, ranks, environment(tmp_path / "cache"), "--set", "optimizer.steps=3")
        assert done.returncode == 0, done.stderr
        found[device] = losses(tmp_path / device)
    assert len(found["gpu"]) >= 3 and found["gpu"] == pytest.approx(found["emulated"], rel=1e-3)
    assert precision == "bf16" or found["gpu"] == found["emulated"]


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("fail, expected", [
    ("cuLaunchKernel:2500:719", r"kernel `\w+`.*: GPU 0 \(stand-in 0\): cuLaunchKernel returned CUDA_ERROR_LAUNCH_FAILED \(719"),
    ("work:1500:700", r"GPU 0 \(stand-in 0\): cu\w+ returned CUDA_ERROR_ILLEGAL_ADDRESS \(700"),  # by whichever call is next
])  # fmt: skip
def test_gpu_falls_off_in_a_run(tmp_path, corpus, ranks, fail, expected):  # noqa: F811
    """One message, exit status 11, no hang; and the run goes on from its last checkpoint."""
    path = write_run(tmp_path, corpus, ranks, device="gpu")
    said = last_words(train(path, ranks, environment(tmp_path / "cache", fail=fail)), 11)
    assert re.search(expected, said), said
    done = train(path, ranks, environment(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    assert "resuming from" in done.stderr, done.stderr
