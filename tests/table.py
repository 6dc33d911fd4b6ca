"""The table of tests: programs, and how files of pytest cases are run. tests/run.py reads it; docs/testing.md explains it.

A case is what the runner starts, counts and reports: a whole program (a cmocka program of tests/unit, a job of MPI, a check of
the source tree) or one pytest item. Its name is GROUP/FILE or GROUP/FILE::ITEM. `build` is what CMake wrote about the build
folder (tests.json: paths of programs, MPI's launcher, compilers that it found)."""
import dataclasses
import os

SKIPPED = 77  # the exit status of a program that cannot run on this machine

# The environment of every case. Idle OpenMP threads that spin take CPU time from other tests, and so do ranks: those of Open MPI
# yield only if there are more of them than cores. On a virtual machine, which traps each read of a register, MPI's search for
# devices on the PCI bus takes longer than a test's job. No result depends on these settings.
# The user's cache folder is not used.
ENVIRONMENT = {"TRIREME_CACHE": "none", "OMP_WAIT_POLICY": "passive", "OMPI_MCA_mpi_yield_when_idle": "1", "HWLOC_COMPONENTS": "-pci,-linuxio"}
MPI_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1", "UBSAN_OPTIONS": "halt_on_error=1",
    "ASAN_OPTIONS": "detect_leaks=0",  # what MPI itself never gives back hides leaks of ours, so comm_test counts those itself
}


@dataclasses.dataclass(frozen=True)
class Program:
    """A case that is one program."""

    name: str
    command: tuple  # words, the first one a path
    environment: dict = dataclasses.field(default_factory=dict)
    groups: tuple = ()  # further groups that it belongs to, besides the one that its name begins with
    fails: bool = False  # its exit status must not be 0
    prints: str = ""  # a regular expression that its output must match, whatever its exit status is
    skip: str = ""  # why it cannot run here


@dataclasses.dataclass(frozen=True)
class Suite:
    """Files of pytest cases, run with one environment."""

    name: str  # the group of its cases
    folder: str  # below tests/
    files: dict = dataclasses.field(default_factory=dict)  # file: which of its cases (an expression of pytest's -k); none: all files
    environment: dict = dataclasses.field(default_factory=dict)
    venv: str = "venv"
    slow: int = 1  # how many times longer than usual a case may take before it counts as hanging
    skip: str = ""  # why it cannot run here


def left_out(build, program=""):
    """Why cases on the devices for tests cannot run, or "": their program (by default trireme-test) was not built (a compiler that
    cannot make the emulator's kernels, or `make build` alone)."""
    program = program or build["trireme-test"]
    return "" if os.path.exists(program) else f"there is no {program}, which has the devices for tests; make build-tests makes it"


# ---- pytest ------------------------------------------------------------------------------------------------------------
# `make test` runs oracle, and parts of training, saving and reading also on two other devices: the guarded one, which detects
# accesses to device memory and missing waits, and the GPU's kernels, which the emulator runs on the CPU; with fewer layouts and
# steps. guarded-all and emulated-all run all tests there, for `make test-guarded` and `make test-emulated`; the latter takes hours.
FEW_LAYOUTS = {"TRIREME_LAYOUTS": "few", "TRIREME_LAYOUT_STEPS": "4"}
GUARDED_FILES = ("layouts", "context", "experts", "expert_models", "parity", "checkpoints", "resume", "ranks", "tune", "readers",
                 "divergence", "folders", "damage")
EMULATED_FILES = ("layouts", "context", "experts", "expert_models", "parity", "checkpoints", "resume", "ranks", "readers", "divergence")
# Orders of threads, widths of warps, sums in memory that MPI reaches: the seed of a run of the tests chooses one.
EMULATED_DEVICES = ("emulated", "emulated:seed=6", "emulated:seed=3,warp=64", "emulated:seed=4,peer=1,warp=64")


def suites(build, seed):
    """All suites. `seed` (int) is that of this run of the tests."""
    with_devices = {"TRIREME": build["trireme-test"]}  # the program that has the devices for tests
    missing = left_out(build)
    emulated = EMULATED_DEVICES[seed % len(EMULATED_DEVICES)]
    return [
        Suite("oracle", "oracle"),
        Suite("guarded", "oracle", skip=missing, environment={"TRIREME_TEST_DEVICE": "guarded", **with_devices, **FEW_LAYOUTS}, files={
            "test_layouts.py": "test_matrix",
            "test_each_layout.py": "zero3 or context-ring or (expert and not expert-)",
            "test_context.py": "(test_matrix and (llama or gpt_neox)) or (bits and joined)",
            "test_experts.py": "(test_matrix and mixtral) or (loads and quota)",
            "test_parity.py": "zero-bubble or (cache and layer)",
            "test_reinforcement.py": "test_what or (test_equal_bits and (slots or pipeline))",
            "test_checkpoints.py": "test_files or test_checksums",
            "test_resume.py": "go_on or summary",
            "test_ranks.py": "whole or (test_elastic and not context)",
            "test_tune.py": "test_ranks_from_the_command_line",
            "test_bad_weights_everywhere.py": "everything or test_every_tensor",
        }),
        Suite("emulated", "oracle", skip=missing, environment={"TRIREME_TEST_DEVICE": emulated, **with_devices, "TRIREME_LAYOUTS": "few", "TRIREME_LAYOUT_STEPS": "2"},
              slow=5, files={
            "test_experts.py": "test_matrix and mixtral",
            "test_layouts.py": "test_matrix and (gpt2 or llama)",
            "test_each_layout.py": "zero3 or (tensor and not expert)",
            "test_context.py": "test_matrix and llama",
            "test_reinforcement.py": "test_what_a_run_writes",
            "test_parity.py": "(gradients and ((tied and not untied) or 4:2 or odd)) or (schedules and llama) or (twenty_steps and bf16 and llama)",
        }),
        Suite("guarded-all", "oracle", skip=missing, environment={"TRIREME_TEST_DEVICE": "guarded", **with_devices}, files={f"test_{name}.py": "" for name in GUARDED_FILES}),
        Suite("emulated-all", "oracle", skip=missing, environment={"TRIREME_TEST_DEVICE": "emulated", **with_devices}, slow=5, files={f"test_{name}.py": "" for name in EMULATED_FILES}),
        # The other MPI: of layouts in fp64 nothing but what passes between ranks is another's, and four steps pass all of it.
        Suite("mpich", "oracle", environment={"TRIREME_MPIEXEC": "mpiexec.mpich", **FEW_LAYOUTS}, files={
            "test_layouts.py": "test_matrix or long or reduce or twice", "test_context.py": "test_matrix or long or reduce or twice", "test_samples.py": "test_layouts"}),
        Suite("threads", "threads", slow=5),  # for a build under ThreadSanitizer (scripts/tsan.sh)
        Suite("full", "full", venv="venv-full"),  # beside the newest PyTorch and transformers
        Suite("slurm", "launch"),  # two nodes of a real Slurm on this machine
    ]


# What `make test` chooses from; the other suites run where they are asked for by name.
USUAL = ("unit", "comm", "gpu", "floors", "oracle", "guarded", "emulated")


# ---- programs ----------------------------------------------------------------------------------------------------------

# Unit tests of code that has threads, for ThreadSanitizer.
WITH_THREADS = ("attention", "checkpoint", "file_writer", "kernels", "kernel_edges", "machine", "ops", "prepare", "recorder",
                "regions", "text_cuts", "text_input", "tokenizer")


def unit_programs(build):
    """Each is one cmocka program: tests/unit/test_*.c, and products through stand-ins for the vendors' libraries."""
    threads = {f"unit/test_{name}" for name in WITH_THREADS}
    for name, path in build["units"].items():
        yield Program(name, (path,), groups=("threads",) if name in threads else ())
    for name, path in build["products"].items():
        folder = os.path.join(build["folder"], "stand-in" + ("-hip" if "hip" in name else ""))
        yield Program(name, (path,), groups=("unit",), environment={"LD_LIBRARY_PATH": folder, "TRIREME_CACHE": f"{folder}/cache"})


def on_ranks(build, name, ranks, *words, per_node=0, groups=(), **expected):
    """A job of MPI; `per_node` ranks (0: all) believe to be on one node."""
    environment = {**MPI_ENVIRONMENT, **({"TRIREME_RANKS_PER_NODE": str(per_node)} if per_node else {})}
    return Program(f"comm/{name}", (*build["mpiexec"], "-n", str(ranks), *words), environment, groups, **expected)


def comm_programs(build):
    """Ranks that work together, started by the launcher of the MPI that the build folder is for."""
    test, exchange = build["comm_test"], build["exchange_test"]
    for ranks in (1, 2, 3, 4, 8):
        yield on_ranks(build, f"ranks-{ranks}", ranks, test, groups=("mpich",) if ranks in (2, 3, 4) else ())
    for ranks, per_node in ((2, 1), (4, 2), (4, 3), (8, 2), (8, 3)):
        yield on_ranks(build, f"ranks-{ranks}-nodes-of-{per_node}", ranks, test, per_node=per_node)
    for ranks in (1, 2, 3):
        yield on_ranks(build, f"dispatcher-{ranks}", ranks, build["dispatcher_test"], groups=("mpich",) if ranks == 2 else ())
    for ranks in (1, 2, 3):
        yield on_ranks(build, f"held-samples-{ranks}", ranks, build["held_samples_test"], groups=("mpich",) if ranks == 3 else ())
    yield on_ranks(build, "short", 2, test, "short", groups=("mpich",))
    yield on_ranks(build, "uneven", 2, test, "uneven")
    yield on_ranks(build, "uneven-nodes-of-1", 2, test, "uneven", per_node=1)
    yield on_ranks(build, "mismatch", 2, test, "mismatch")
    yield on_ranks(build, "abort", 3, test, "abort", fails=True)
    # The same of device memory: staged, where the host sees it, and where MPI reaches it.
    devices = ("reference", "guarded:seed=5", "emulated:seed=3", "emulated:peer=1", "emulated:peer=1,seed=9")
    for ranks, per_node in ((1, 0), (2, 0), (3, 0), (4, 2), (5, 3)):
        yield on_ranks(build, f"exchange-{ranks}-{per_node}", ranks, exchange, *devices, per_node=per_node)
    # The report names a rank that is stopped while it waits; a killed rank ends the job.
    for what, device, per_node in (("all_to_all", "reference", 0), ("all_to_all", "reference", 1), ("all_to_all", "guarded", 0),
                                   ("pass", "reference", 0), ("pass", "reference", 1), ("pass", "guarded", 0)):
        waits = "receive|send" if device == "guarded" else what  # guarded: between staging
        reports = {
            "stopped": rf"rank 1 .context 1. is behind: it does not answer.*; rank [02] .context [02]. waits for it in ({waits})[a-z0-9 ]* over context_outer",
            "killed": r"signal 9|EXIT CODE: 9|: No such process|context_outer: MPI_",  # the launcher's words, or MPI's for a rank that reads from it
        }
        for fate, report in reports.items():
            name = f"{fate}-{what}-{device}-{per_node}"
            yield on_ranks(build, name, 3, exchange, fate, what, device, os.path.join(build["folder"], "lost-ranks", name), per_node=per_node, prints=report)
    if build["other_mpiexec"]:
        yield Program("comm/other-mpi", (*build["other_mpiexec"], "-n", "2", test, "other-mpi"), MPI_ENVIRONMENT)
    # Buffers beyond what MPI counts in int; 9 GB of memory.
    yield dataclasses.replace(on_ranks(build, "huge", 2, test, "huge"), name="full/comm-huge")


def gpu_programs(build):
    """Tests of the GPU's kernels and of the vendors' libraries that need no GPU."""
    source, tools = build["source"], build["tools"]
    check = os.path.join(tools, "kernel_check-test")
    # Warps of 32 and of 64, orders of threads over them, each with inputs of its own. Sanitizers take eight times as long:
    # there each seed has one type, and each type one width of warps.
    types = ("fp64", "fp32", "bf16")
    for seed in range(1, 4 if build["sanitize"] else 5):
        words = ("--types", types[seed % 3]) if build["sanitize"] else ()
        warp = 32 + 32 * (seed % 2)
        yield Program(f"gpu/kernel-check-emulated-warp{warp}-seed{seed}",
                      (check, f"emulated:warp={warp},seed={seed}", "--quick", "--seed", str(seed), *words), {"OMP_NUM_THREADS": "1"}, groups=("unit",), skip=left_out(build, check))
    for chip in ("sm_80", "sm_90a", "sm_100a", "gfx90a"):  # SKIPPED where its compiler cannot be had
        yield Program(f"gpu/compile-{chip}", (build["compile_kernels"], chip), {"VIRTUAL_ENV": os.path.join(source, "build/venv")})
    # Our prototypes, structs and numbers beside the vendor's headers: the test is whether the file compiles.
    for vendor, header, package in (("cuda", "nvrtc.h", "the CUDA toolkit"), ("hip", "hip/hiprtc.h", "ROCm, and in Debian with libamdhip64-dev")):
        include = build[f"{vendor}_include"]
        yield Program(f"gpu/prototypes-{vendor}", (build["compiler"], "-std=gnu17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I", f"{source}/src",
                                                   "-isystem", include, f"{source}/tests/gpu/prototypes_{vendor}.c"),
                      skip="" if include else f"there is no {header}; it comes with {package}")
    yield Program("gpu/gpu-check-emulated", (f"{source}/tests/gpu/gpu_check_test.sh", source, build["trireme-test"], tools), skip=left_out(build))


def floor_programs(build):
    """Checks of the source tree: allowed includes, enums that must be handled everywhere, dependencies of a library."""
    python, source, floors = build["python"], build["source"] + "/src", build["source"] + "/tests/floors"
    for name, *words in (("tree", "check_floors.py", source), ("planted", "check_floors_test.py"), ("includes", "check_includes.py", source),
                         ("includes-planted", "check_includes_test.py"), ("enums", "check_enums.py", source, build["folder"] + "/compile_commands.json"),
                         ("enums-planted", "check_enums_test.py"),
                         ("scripts", "check_scripts.py", build["source"]), ("scripts-planted", "check_scripts.py", "--planted"),
                         ("words", "check_words.py", build["source"]), ("words-planted", "check_words_test.py"),
                         ("plain", "check_plain.py", build["source"]), ("plain-planted", "check_plain_test.py"),
                         ("circles", "check_circles.py", build["source"]), ("circles-planted", "check_circles_test.py"),
                         ("files", "check_files.py", build["source"]), ("files-planted", "check_files_test.py"),
                         ("twins", "check_twins.py", source), ("twins-planted", "check_twins_test.py"),
                         ("plan-links", "check_links.py", *build["plan_links"]), ("links-planted", "check_links.py", "--planted", build["compiler"])):
        yield Program(f"floors/{name}", (python, os.path.join(floors, words[0]), *words[1:]))


def same_bits(build):
    """A program's own losses, weights, moments and texts on another device: the same bits as on the reference device, or in
    another order of threads and with sums that MPI brings to the device in place of those in the host's memory."""
    command = (build["python"], build["source"] + "/scripts/same-bits.py", build["trireme-test"], build["trireme-test"])
    for name, *words in (("guarded", "--layouts", "4", "--devices", "reference-fp64", "--after-device", "guarded"),
                         ("guarded-all", "--devices", "reference-fp64,reference-fp32", "--after-device", "guarded"),
                         ("emulated", "--layouts", "3", "--devices", "emulated-bf16", "--after-device", "emulated:seed=5,peer=1"),
                         ("emulated-all", "--devices", "emulated-fp64,emulated-fp32,emulated-bf16", "--after-device", "emulated:seed=5,peer=1")):
        yield Program(f"{name}/same-bits", (*command, *words), skip=left_out(build))


def programs(build):
    """All of them that this build has."""
    parts = [unit_programs, floor_programs]
    parts += [comm_programs, gpu_programs, same_bits] if build["running"] else []
    return [program for part in parts for program in part(build)]
