"""`device: gpu` on stand-ins for AMD's run-time library and compiler (tests/gpu/stand_in_hip.c): results with warps of 64, and the error
messages for every fault. test_gpu_driver.py tests the common parts (the cache, Python's wheels)."""
import os
import pathlib
import re
import shutil
import subprocess

import numpy
import pytest
from drawn import SEED
from parity import TOOLS
from test_gpu_driver import TYPES, bits_of, message, tool, values_of

pytestmark = pytest.mark.cpu  # names its devices itself
SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(TOOLS).parent
HIP_7, HIP_5 = BUILD / "stand-in-hip", BUILD / "stand-in-hip-5"
LISTS = [(SOURCE / "src/device/gpu" / name).read_text() for name in ("calls.h", "hip_calls.h")]
CALLS = re.findall(r"C\(\w+, (?:cu\w+, )?(hip\w+)\)", "".join(LISTS))


def environment(cache, libraries=HIP_7, **words):
    """The stand-ins in front of all else, no GPU of NVIDIA's, and a cache of the test's own."""
    hidden = ("TRI_STAND_IN", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ROCM_PATH", "HIP_PATH", "VIRTUAL_ENV", "CONDA_PREFIX")
    own = {name: value for name, value in os.environ.items() if name not in hidden}
    said = ",".join(f"{name}={value}" for name, value in words.items())
    # A process that fails ends without freeing the memory of the device.
    return own | dict(LD_LIBRARY_PATH=str(libraries), TRIREME_CACHE=str(cache), TRI_STAND_IN=said, CUDA_VISIBLE_DEVICES="", ASAN_OPTIONS="detect_leaks=0")


# ---- results ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("libraries", [HIP_7, HIP_5], ids=["7", "5"])
@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("type_", TYPES)
def test_numbers(tmp_path, type_, late, libraries):
    """Sums and conversions, beside numpy's."""
    count = 5003
    a, b = (bits_of(type_, x) for x in numpy.random.default_rng(count).normal(size=(2, count)))
    done = tool(environment(tmp_path, libraries, late=late), "numbers", type_, count, given=a.tobytes() + b.tobytes())
    assert done.returncode == 0, done.stderr
    total = bits_of(type_, values_of(type_, a) + values_of(type_, b))
    expected = [total] + [bits_of(other, values_of(type_, total)) for other in TYPES if other != type_]
    assert done.stdout == b"".join(x.tobytes() for x in expected)
    assert all("gfx90a-" in entry.name for entry in tmp_path.iterdir())  # without what the driver adds to the chip's name


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
    done = tool(environment(tmp_path), "zeros", 1000)
    assert done.returncode == 0 and done.stdout == bytes(2000), done.stderr


# ---- the library --------------------------------------------------------------------------------------------------------


def test_no_gpu(tmp_path):
    (tmp_path / "none").mkdir()
    done = tool(environment(tmp_path, tmp_path / "none"), "zeros", 1)
    if done.returncode == 0:
        pytest.skip("SKIPPED: there is a GPU")
    assert re.search("HIP: AMD's run-time library .HIP. was not found|HIP: HIP .* shows no GPU: ", message(done, 7))


@pytest.mark.parametrize("words, expected", [
    (dict(gpus=0), r"HIP 7.0.1 \(.*libamdhip64.so.7\) shows (no GPU: (there is no /dev/kfd|this user may not use)|0 GPUs)"),
    (dict(hip=80012345), "is of HIP 8.0.12345, and this program knows versions 5 to 7: take a ROCm of these"),
    (dict(hip=40400000), "is of HIP 4.4.0, and this program knows versions 5 to 7"),
    (dict(fail="hipGetDeviceCount:1:101"), "shows (no|0) GPU"),
    (dict(fail="hipGetDeviceCount:1:35"), "older than this ROCm takes: update it"),
    (dict(fail="hipGetDeviceCount:1:999"), "hipGetDeviceCount returned an error without a name .999, .*a reboot is needed"),
])  # fmt: skip
def test_library_without_gpu(tmp_path, words, expected):
    said = message(tool(environment(tmp_path, **words), "zeros", 1), 7)
    assert re.search(expected, said) and "no GPU that this process can use" in said, said


def test_hidden_gpus(tmp_path):
    env = environment(tmp_path, gpus=0) | dict(HIP_VISIBLE_DEVICES="", ROCR_VISIBLE_DEVICES="7")
    said = message(tool(env, "zeros", 1), 7)
    assert "; HIP_VISIBLE_DEVICES is empty; ROCR_VISIBLE_DEVICES is 7" in said, said


def test_library_that_is_none(tmp_path):
    """A library that cannot be opened, and one that lacks a function."""
    for name in ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"):
        (tmp_path / name).write_text("no library at all")
    said = message(tool(environment(tmp_path, tmp_path), "zeros", 1), 7)
    assert "AMD's run-time library (HIP) cannot be used: libamdhip64.so.7: " in said, said
    (tmp_path / "libamdhip64.so.7").unlink()
    shutil.copy(HIP_7 / "libhiprtc.so.7", tmp_path / "libamdhip64.so.7")
    said = message(tool(environment(tmp_path, tmp_path), "zeros", 1), 7)
    assert f"{tmp_path}/libamdhip64.so.7: has no function `hipRuntimeGetVersion`" in said, said


# ---- the GPU ------------------------------------------------------------------------------------------------------------


def test_gpu_that_others_have_filled(tmp_path):
    said = message(tool(environment(tmp_path, taken=(2 << 30) - 1000), "zeros", 1), 6)
    assert said.startswith("GPU 0 (stand-in 0) has no free memory at the start: other processes use it (`rocm-smi --showpids`"), said
    said = message(tool(environment(tmp_path, fail="hipMalloc:2:2", taken=1 << 30), "zeros", 5000), 6)
    assert re.search(r"GPU 0 \(stand-in 0\) cannot allocate 4.88 KiB: of its 2.00 GiB, this process uses 32.00 MiB, other processes and the driver use 1.06 GiB, and 928.00 MiB are free", said), said
    said = message(tool(environment(tmp_path, fail="hipHostMalloc:1:2"), "rows", 3, 3, given=b"123456789"), 6)
    assert "page-locked" in said, said


FAULTS = {214: "memory is faulty", 700: "dmesg", 719: "fell off the bus", 702: "serves a screen", 100: "is gone", 999: "reboot"}


@pytest.mark.parametrize("code", FAULTS)
def test_faults_of_queued_work(tmp_path, code):
    """Told at the next wait, once, with the newest kernel before it. The first pieces are the scratch memory's zeros and the
    operands'."""
    said = message(tool(environment(tmp_path, fail=f"work:7:{code}"), "numbers", "fp64", 100, given=bytes(2 * 8 * 100)), 11)
    assert re.match(rf"work up to kernel `add`: GPU 0 \(stand-in 0\): hipEventSynchronize returned .* \({code}, as told to the stand-in\): ", said), said
    assert FAULTS[code] in said, said


def test_fault_that_is_found_by_asking(tmp_path):
    """HIP tells an error once: who only asks whether an event has passed leaves it to who waits."""
    for code in (719, 1):
        said = message(tool(environment(tmp_path, fail=f"hipEventQuery:1:{code}"), "rows", 10, 10, given=bytes(100)), 11)
        assert f"GPU 0 (stand-in 0): hipEventQuery returned {'hipErrorLaunchFailure' if code == 719 else 'hipErrorInvalidValue'} ({code}" in said, said


# Failures of these calls are not reported; a later call reports the fault, or the call comes at the very end.
QUIET = {"hipDeviceGetAttribute", "hipMemGetAddressRange", "hipThreadExchangeStreamCaptureMode", "hipGraphDestroy", "hipGraphExecDestroy", "hipFree", "hipHostFree",
         "hipStreamDestroy", "hipEventDestroy", "hipModuleUnload"}  # fmt: skip
# Calls while the library is opened, names of errors, and the properties of version 5.
OTHERS = {"hipRuntimeGetVersion", "hipGetErrorName", "hipGetErrorString", "hipGetDeviceCount", "hipGetDeviceProperties"}


@pytest.mark.parametrize("call", sorted(set(CALLS) - OTHERS - {"hipMemGetInfo"}))
def test_every_call_fails(tmp_path, call):
    """A GPU that is lost: the first call that fails, whichever it is, gives one error message, and the program ends."""
    told = 0
    for words in [("times", "fp64", 100, 2), ("rows", 10, 10)]:
        for number in (1, 2, 3):
            done = tool(environment(tmp_path, fail=f"{call}:{number}:719"), *words, given=bytes(2 * 8 * 100))
            if done.returncode == 0:
                continue
            told += 1
            said = message(done, 11)
            assert re.search(rf"GPU 0.*: {call} returned hipErrorLaunchFailure \(719, ", said) and "fell off the bus" in said, said
    assert (told > 0) == (call not in QUIET), call


def test_properties_of_version_5(tmp_path):
    said = message(tool(environment(tmp_path, HIP_5, fail="hipGetDeviceProperties:1:719"), "zeros", 1), 11)
    assert "hipGetDeviceProperties returned hipErrorLaunchFailure" in said, said


@pytest.mark.parametrize("chip", ["MI250X", "gfx", "gfx90x", "gfx90a+xnack", ""])
def test_name_that_is_no_chip(tmp_path, chip):
    said = message(tool(environment(tmp_path, chip=chip), "zeros", 1), 7)
    assert "GPU 0 (stand-in 0): HIP 7.0.1" in said and "does not say which chip it is where this program looks for it" in said, said


def test_kernels_that_are_refused(tmp_path):
    said = message(tool(environment(tmp_path, hiprtc_chip="gfx908"), "zeros", 1), 7)
    assert "rejects the compiled kernels `elements`: hipErrorNoBinaryForGpu (209). If hipRTC belongs to a newer ROCm" in said, said


# ---- the compiler -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("libraries", [HIP_7, HIP_5], ids=["7", "5"])
@pytest.mark.parametrize("chip", ["gfx9999", "gfx942:sramecc+:xnack-", "gfx90"])
def test_unknown_chips(tmp_path, chip, libraries):
    """The compiler would end the process."""
    name = chip.split(":")[0]
    said = message(tool(environment(tmp_path, libraries, chip=chip), "zeros", 1), 7)
    if name == "gfx90":
        assert "does not say which chip it is" in said, said
        return
    assert f"does not compile for {name}; it knows gfx908 gfx90a gfx1030. If this is a newer chip, a newer ROCm" in said, said


def test_compiler_that_fails(tmp_path):
    said = message(tool(environment(tmp_path, hiprtc_fails=6), "zeros", 1), 7)
    assert "does not compile device/gpu/kernels/elements.c for gfx90a and 32 bits" in said and "elements.c:1: error: told to fail" in said, said
    said = message(tool(environment(tmp_path, hiprtc_fails=6, hiprtc_says=0), "zeros", 1), 7)
    assert "does not say why. It writes temporary files: is there room in /tmp" in said, said
    said = message(tool(environment(tmp_path, hiprtc_fails=7), "zeros", 1), 7)
    assert "libhiprtc-builtins of its version is missing or damaged" in said, said


def test_compiler_that_takes_the_chip_for_another(tmp_path):
    said = message(tool(environment(tmp_path, hiprtc_warp=32), "zeros", 1), 7)
    assert "for 32 threads in step, where this program takes gfx90a to have 64" in said, said


def test_library_without_compiler(tmp_path):
    """One message; but what was compiled where there is a compiler serves."""
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(HIP_7 / "libamdhip64.so.7", alone)
    for name in ("libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so", "libamdhip64.so.5"):
        (alone / name).write_text("")  # in front of one that the machine may have
    said = message(tool(environment(tmp_path / "cache", alone), "zeros", 1), 7)
    assert "AMD's run-time compiler (hipRTC) cannot be used: libhiprtc.so.7: " in said, said
    assert "It comes with ROCm" in said and "libhiprtc-builtins5" in said and str(tmp_path / "cache") in said, said
    for libraries in (HIP_7, alone):
        done = tool(environment(tmp_path / "cache", libraries), "zeros", 1)
        assert done.returncode == 0, done.stderr


def test_compiler_without_its_manager(tmp_path):
    for name in ("libamdhip64.so.7", "libhiprtc.so.7"):
        shutil.copy(HIP_7 / name, tmp_path)
    for name in ("libamd_comgr.so.3", "libamd_comgr.so.2", "libamd_comgr.so"):
        (tmp_path / name).write_text("")
    said = message(tool(environment(tmp_path / "cache", tmp_path), "zeros", 1), 7)
    assert "AMD's code object manager (comgr), which hipRTC works with, cannot be used: " in said and "libamd-comgr2" in said, said


def test_toolkit(tmp_path):
    """The compiler is found with ROCM_PATH, and the code object manager (comgr) in the compiler's folder, not elsewhere."""
    for name in ("libhiprtc.so.7", "libamd_comgr.so.3"):
        (tmp_path / "rocm/lib").mkdir(parents=True, exist_ok=True)
        shutil.copy(HIP_7 / name, tmp_path / "rocm/lib")
    (tmp_path / "alone").mkdir()
    for name in ("libamdhip64.so.7", "libamd_comgr.so.3"):
        shutil.copy(HIP_7 / name, tmp_path / "alone")
    (tmp_path / "alone/libamdhip64.so.5").write_text("")
    (tmp_path / "alone/libamd_comgr.so.3").write_text("")
    env = environment(tmp_path / "cache", tmp_path / "alone") | dict(ROCM_PATH=str(tmp_path / "rocm"))
    done = tool(env, "zeros", 1)
    assert done.returncode == 0, done.stderr


# ---- the real compiler --------------------------------------------------------------------------------------------------


def test_resources_beside_llvm(tmp_path):
    """The resources read from code objects of a real hipRTC equal those that llvm-readelf prints. Tests one type, chosen at random."""
    readelf = next((path for path in map(shutil.which, ["llvm-readelf", *(f"llvm-readelf-{v}" for v in range(30, 13, -1))]) if path), None)
    if readelf is None:
        pytest.skip("SKIPPED: there is no llvm-readelf to compare with")
    another = {**os.environ, "TRIREME_TEST_SEED": str(int(SEED) + 1)}  # than gpu/compile-gfx90a compiles
    done = subprocess.run([BUILD / "compile_kernels", "gfx90a", tmp_path], capture_output=True, text=True, timeout=600, env=another)
    if done.returncode == 77:
        pytest.skip(done.stdout)
    assert done.returncode == 0, done.stdout
    compared = 0
    for image in sorted(tmp_path.iterdir()):
        module, bits = image.stem.split("-")
        said = subprocess.run([readelf, "--notes", image], capture_output=True, text=True, check=True).stdout
        for kernel in re.split(r"\n  - \.agpr_count", said)[1:]:
            fact = dict(re.findall(r"^ +(?:- )?\.(\w+): +(\S+)$", kernel, re.MULTILINE))
            line = (f"gfx90a {module:<9} {bits} bits kernel {fact['name']}: {fact['vgpr_count']} registers, {fact['group_segment_fixed_size']} bytes of shared memory, "
                    f"{fact['private_segment_fixed_size']} bytes spilled")  # fmt: skip
            assert line in done.stdout.splitlines(), line
            compared += 1
    assert compared > 0 and compared == done.stdout.count(" bits kernel ")
