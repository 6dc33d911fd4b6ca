#!/usr/bin/env python3
"""Whether a change leaves the numbers alone: same-bits.py BEFORE AFTER, two binaries of trireme.

Each layout is trained for a few steps by both, in fp32 and bf16 on the cpu device and in fp64 on the reference device. Compared
to the last bit: loss, norm of the gradient, learning rate and validation loss of every step, weights and moments of every
checkpoint, and where one rank did it, what `eval` and `generate` make of the last. One line a run; the exit status is 1 if
anything differs.

  --layouts N        the first N layouts only (all)
  --list             what the layouts are
  --devices D,...    which of cpu-fp32, cpu-bf16, reference-fp64, reference-fp32 (the first three), or, of two trireme-test,
                     emulated-fp64, guarded-fp64, ...
  --after-device D   AFTER trains on D where BEFORE does not train on the cpu device
  --instructions     count instead the instructions of a step on one rank and on two, with valgrind
  --time K           measure instead the seconds of a step on one rank and on two: K runs of each binary, in turn

Both measurements end with 0 whatever they find: they are for a person to judge, on a machine that does nothing else.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile

STEPS = 4
LONGEST_S = 600  # nothing here takes so long, but that which hangs
GPT2 = dict(family="gpt2", num_layers=4, hidden_size=24, num_heads=4, vocab_size=257, max_sequence=16, dropout=0.1, init_std=0.1)
LLAMA = dict(family="llama", num_layers=4, hidden_size=32, num_heads=4, num_kv_heads=2, ffn_size=42, vocab_size=257, max_sequence=16,
             tied=False, init_std=0.1)
LAYOUTS = {  # name: ranks, model, keys of the layout, other keys
    "one": (1, GPT2, dict(micro_batch=2), {}),
    "llama": (1, LLAMA, dict(micro_batch=4), {}),
    "tensor2-sequence": (2, GPT2, dict(tensor=2, sequence_parallel=True), {}),
    "pipeline2": (2, GPT2, dict(pipeline=2), {}),
    "interleaved": (2, GPT2, dict(pipeline=2, virtual_stages=2, schedule="interleaved"), {}),
    "zero-bubble": (2, LLAMA, dict(pipeline=2, schedule="zero-bubble"), {}),
    "zero1": (2, GPT2, dict(zero=1, micro_batch=2, bucket_bytes=9000), {}),
    "zero2": (2, LLAMA, dict(zero=2, micro_batch=4, bucket_bytes=9000), {}),
    "zero3": (2, GPT2, dict(zero=3, micro_batch=4, bucket_bytes=9000), {}),
    "tensor2-data2": (4, LLAMA, dict(tensor=2, data=2), {}),
    "recompute-full": (1, GPT2, dict(recompute="full", recompute_every=2), {"checkpoint.async": "true"}),
    "recompute-selective": (2, LLAMA, dict(tensor=2, sequence_parallel=True, recompute="selective"), {}),
    "reduce-bf16": (2, LLAMA, dict(data=2, reduce_precision="bf16", bucket_bytes=9000), {}),
    "zero3-accumulating": (2, LLAMA, dict(zero=3, recompute="full", bucket_bytes=9000), {"checkpoint.snapshot_every": "1"}),
    "gpipe-untied-no-clip": (2, LLAMA, dict(pipeline=2, schedule="gpipe"), {"optimizer.clip": "0"}),
    "pipeline2-data2-zero1": (4, GPT2, dict(pipeline=2, data=2, zero=1, bucket_bytes=9000), {"data.ignore_token": "101"}),
    "tensor2-pipeline2": (4, GPT2, dict(tensor=2, pipeline=2, sequence_parallel=True, schedule="zero-bubble", recompute="full"), {}),
}
KEYS = ("loss", "grad_norm", "lr", "validation_loss", "tokens", "bad_steps")
# More ranks than cores must not spin; the program would restart itself to have threads wait without spinning; looking for devices
# takes MPI longer than a small run. None of them decides a number.
QUIET = {"OMPI_MCA_mpi_yield_when_idle": "1", "OMP_WAIT_POLICY": "passive", "HWLOC_COMPONENTS": "-pci,-linuxio"}
OPEN_MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}


class Difference(Exception):
    """What is not the same, or did not run."""


def run(command, **more):
    environment = {**os.environ, **QUIET, **more}
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace", env=environment,
                              stdin=subprocess.DEVNULL, timeout=LONGEST_S)
    except subprocess.TimeoutExpired:  # ranks end with their parent
        raise Difference(f"{' '.join(str(word) for word in command[:3])} ... has not ended after {LONGEST_S} s") from None
    if done.returncode != 0:
        raise Difference(f"{' '.join(str(word) for word in command[:3])} ... ended with {done.returncode}: {done.stderr.strip()[-1500:]}")
    return done.stdout


def prepare(binary, folder):
    """A corpus that both binaries read; the bytes are the words."""
    lines = (f"Line {i}: the rowers pull {i * 7919 % 1000} times.\n" for i in range(2000))
    (folder / "text.txt").write_text("".join(lines))
    run([binary, "prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt"])


def write_run(path, folder, model, layout, device, precision, **changes):
    """Everything that decides a number is said here; `output` stands beside the run file."""
    settings = dict(model=model, layout=dict(micro_batch=1, **layout) if "micro_batch" not in layout else layout,
                    data=dict(train=str(folder / "data/train"), validation=str(folder / "data/validation"), sequence=16),
                    optimizer=dict(global_batch=8, steps=STEPS, lr=1e-2, warmup=2), evaluation=dict(every=2, batches=2),
                    checkpoint=dict(every=2, keep=0), seed=7, threads=1, device=device, precision=precision,
                    output=str(path.with_suffix("")))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**settings, **changes}))  # JSON is YAML
    return path


def train(binary, path, ranks, sets=()):
    words = [word for key, value in dict(sets).items() for word in ("--set", f"{key}={value}")]
    run([binary, "train", path, *(["-n", ranks] if ranks > 1 else []), *words])


def show(value):
    return f"{value!r} ({value.hex()})" if isinstance(value, float) else repr(value)


def compare_metrics(before, after):
    """Numbers are written so that reading them gives the same double."""
    lines = [[json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()] for folder in (before, after)]
    if len(lines[0]) != STEPS or len(lines[1]) != STEPS:
        raise Difference(f"{len(lines[0])} steps and {len(lines[1])}, of {STEPS}")
    for mine, theirs in zip(*lines):
        for key in KEYS:
            if mine.get(key) != theirs.get(key):
                raise Difference(f"step {mine['step']}: {key} is {show(mine.get(key))} before and {show(theirs.get(key))} after")
    return len(lines[0])


def read_tensors(path):
    """{name: (type, shape, bytes)} of a safetensors file."""
    raw = path.read_bytes()
    (length,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    places = {name: (facts, *(8 + length + at for at in facts["data_offsets"])) for name, facts in header.items()}
    return {name: (facts["dtype"], facts["shape"], raw[begin:end]) for name, (facts, begin, end) in places.items()}


def first_difference(mine, theirs):
    """Index and both values of the first element that differs."""
    code, width = {"F64": ("<d", 8), "F32": ("<f", 4)}.get(mine[0], ("<B", 1))
    for at in range(0, len(mine[2]), width):
        if mine[2][at : at + width] != theirs[2][at : at + width]:
            values = [show(struct.unpack_from(code, side[2], at)[0]) for side in (mine, theirs)]
            return f"element {at // width} of {mine[1]} is {values[0]} before and {values[1]} after"
    return "is longer on one side"


def compare_checkpoints(before, after):
    """Answers how many tensors were compared."""
    names = [sorted(path.name for path in (folder / "checkpoints").glob("step-*")) for folder in (before, after)]
    if names[0] != names[1] or f"step-{STEPS:08d}" not in names[0]:
        raise Difference(f"checkpoints {names[0]} before and {names[1]} after")
    tensors = 0
    for step in names[0]:
        folders = [folder / "checkpoints" / step for folder in (before, after)]
        files = [sorted(path.name for path in folder.glob("*.safetensors")) for folder in folders]
        if files[0] != files[1] or not {"model.safetensors", "optimizer.safetensors"} <= set(files[0]):
            raise Difference(f"{step}: files {files[0]} before and {files[1]} after")
        for name in files[0]:
            mine, theirs = (read_tensors(folder / name) for folder in folders)
            if list(mine) != list(theirs):
                raise Difference(f"{step}/{name}: other tensors, or in another order")
            for tensor in mine:
                tensors += 1
                if mine[tensor] != theirs[tensor]:
                    if mine[tensor][:2] != theirs[tensor][:2]:
                        raise Difference(f"{step}: {tensor} is {mine[tensor][:2]} before and {theirs[tensor][:2]} after")
                    raise Difference(f"{step}: {tensor}: {first_difference(mine[tensor], theirs[tensor])}")
    return tensors


def compare_readers(binaries, outputs, folder, devices, precision):
    """What the last checkpoint says: held-out loss, a drawn text and a certain one."""
    answers = []
    for binary, output, device in zip(binaries, outputs, devices):
        usual = ["--device", device, "--precision", precision, "--threads", 1]
        loss = json.loads(run([binary, "eval", output, folder / "data/validation", "--batch", 3, "--json", *usual]))
        texts = [run([binary, "generate", output, "--prompt", "Line 7", "--tokens", 9, "--temperature", t, "--seed", 3, *usual])
                 for t in (0, 1)]
        answers.append((loss["loss"], *texts))
    for mine, theirs, what in zip(*answers, ("eval: the loss", "generate --temperature 0: the text", "generate --temperature 1: the text")):
        if mine != theirs:
            raise Difference(f"{what} is {show(mine)} before and {show(theirs)} after")


def compare_layout(binaries, folder, name, device, precision, after_device):
    ranks, model, layout, sets = LAYOUTS[name]
    devices = [device, after_device or device]
    outputs = []
    for binary, side, where in zip(binaries, ("before", "after"), devices):
        path = write_run(folder / side / f"{name}-{device}-{precision}.yaml", folder, model, layout, where, precision)
        train(binary, path, ranks, sets)
        outputs.append(path.with_suffix(""))
    steps, tensors = compare_metrics(*outputs), compare_checkpoints(*outputs)
    if ranks == 1:
        compare_readers(binaries, outputs, folder, devices, precision)
    for output in outputs:
        shutil.rmtree(output)
    return f"same: {steps} steps, {tensors} tensors" + (", eval, generate" if ranks == 1 else "")


def check_bits(binaries, folder, arguments):
    different = 0
    for name in list(LAYOUTS)[: arguments.layouts]:
        for where in arguments.devices.split(","):
            device, _, precision = where.partition("-")
            ranks, _, layout, _ = LAYOUTS[name]
            if precision == "fp64" and "reduce_precision" in layout:
                continue  # gradients in double do not travel as bf16
            after_device = arguments.after_device if device != "cpu" else None
            try:
                answer = compare_layout(binaries, folder, name, device, precision, after_device)
            except Difference as difference:
                answer = f"DIFFERENT: {difference}"
                different += 1
            print(f"{name:24} {ranks} rank{'s' if ranks > 1 else ' '} {where:15} {answer}", flush=True)
    if different:
        print(f"{different} runs are not the same")
    return 1 if different else 0


def measured_run(folder, width, sequence, steps, layout):
    """A width of 192 is some 10 to 50 ms a step on one core; valgrind makes a thousand of one."""
    model = dict(family="gpt2", num_layers=4, hidden_size=width, num_heads=4, vocab_size=1000, max_sequence=sequence)
    return write_run(folder / "measured.yaml", folder, model, layout, "cpu", "fp32", optimizer=dict(global_batch=4, steps=steps, lr=1e-3),
                     evaluation=dict(every=0), checkpoint=dict(every=0, at_end=False),
                     data=dict(train=str(folder / "data/train"), sequence=sequence))


CASES = {"one rank": (1, dict(micro_batch=2)), "two ranks, zero 1": (2, dict(micro_batch=1, zero=1)),
         "two ranks, tensor 2": (2, dict(micro_batch=2, tensor=2)), "two ranks, pipeline 2": (2, dict(micro_batch=1, pipeline=2))}
COUNTED_STEPS = 2


def costs(path):
    """{(object, function): instructions of its own} of a file that callgrind wrote."""
    names, at, found, called = {}, {"ob": "", "fn": ""}, {}, False
    for line in path.read_text(errors="replace").splitlines():
        heading = re.match(r"(c?)(ob|fn)=\((\d+)\)(?: (.*))?$", line)
        if heading:
            called_one, kind, number, name = heading.groups()
            if name is not None:  # it is said once, and then meant by its number
                names[kind, number] = name
            if not called_one:
                at[kind] = names[kind, number]
        elif line.startswith("calls="):
            called = True
        elif re.match(r"[+*0-9-]\S* \d+$", line):
            if not called:  # else what is below the call
                found[at["ob"], at["fn"]] = found.get((at["ob"], at["fn"]), 0) + int(line.split()[1])
            called = False
    return found


def functions_of(folder):
    return {name for path in folder.rglob("*.c") for name in re.findall(r"^[a-z][^;={}#]*?\b(\w+)\([^;]*?\{", path.read_text(), re.M)}


def only_of_comm():
    """Functions that src/comm defines and nothing else that runs in a step has one of the same name."""
    source = pathlib.Path(__file__).resolve().parents[1] / "src"
    others = set().union(*(functions_of(folder) for folder in source.iterdir() if folder.name not in ("comm", "cli", "plan", "tune")))
    return functions_of(source / "comm") - others


def is_work(place, comm):
    """Not in comm/ nor in what MPI calls: there, ranks wait and go round as often as the others let them."""
    library, function = os.path.basename(place[0]), place[1].split("'")[0].split(".")[0]
    if library.startswith(("libc.", "libc-")):
        return re.match(r"_*mem(cpy|move|set)", function) is not None
    outside = ("libmpi", "libopen", "libevent", "libpmix", "mca_", "libuc", "ld-", "libpthread", "libfabric")
    return function not in comm and not library.startswith(outside)


def instructions(binary, folder, path, ranks, comm):
    """Of a step, all ranks': everything, and what is certain."""
    counts = folder / "counts"
    shutil.rmtree(counts, ignore_errors=True)
    counts.mkdir()
    launcher = [os.environ.get("TRIREME_MPIEXEC", "mpiexec"), "-n", ranks] if ranks > 1 else []
    valgrind = ["valgrind", "--tool=callgrind", "--toggle-collect=tri_engine_step", f"--callgrind-out-file={counts}/%p"]
    run([*launcher, *valgrind, binary, "train", path, "--resume", "never"], OMP_NUM_THREADS="1", **OPEN_MPI)
    found = [costs(path) for path in counts.iterdir()]
    if len(found) != ranks or not all(sum(rank.values()) for rank in found):
        raise Difference(f"{binary}: nothing was counted; tri_engine_step is not there under this name, or valgrind did not run")
    everything = sum(sum(rank.values()) for rank in found) / COUNTED_STEPS
    return everything, sum(cost for rank in found for place, cost in rank.items() if is_work(place, comm)) / COUNTED_STEPS


def count_instructions(binaries, folder):
    if shutil.which("valgrind") is None:
        raise Difference("--instructions needs valgrind")
    comm = only_of_comm()
    print(f"{'instructions a step, all ranks':46} {'before':>13} {'after':>13} {'change':>9}")
    for name, (ranks, layout) in CASES.items():
        path = measured_run(folder, 64, 32, COUNTED_STEPS, layout)
        sides = zip(*(instructions(binary, folder, path, ranks, comm) for binary in binaries))
        for kind, (before, after) in zip(("", ", comm/ and MPI left out"), sides):
            print(f"{name + kind:46} {before:13.0f} {after:13.0f} {100 * (after / before - 1):+8.3f} %", flush=True)
    return 0


def measure_time(binaries, folder, rounds):
    print(f"{'ms a step, median of runs':26} {'before':>9} {'after':>9} {'ratio':>7}   ratios of neighbours, lowest to highest")
    for name, (ranks, layout) in CASES.items():
        path = measured_run(folder, 192, 64, 60, layout)
        found = [[], []]
        for number in range(rounds):
            for side in ((0, 1), (1, 0))[number % 2]:  # neither always follows the other
                run([binaries[side], "train", path, "--resume", "never", *(["-n", ranks] if ranks > 1 else [])],
                    OMPI_MCA_mpi_yield_when_idle="0")
                lines = (path.with_suffix("") / "metrics.jsonl").read_text().splitlines()
                found[side].append(statistics.median(json.loads(line)["step_s"] for line in lines[10:]))  # the first ones warm up
                shutil.rmtree(path.with_suffix(""))
        before, after = (1e3 * statistics.median(side) for side in found)
        ratios = sorted(b / a for a, b in zip(*found))
        print(f"{name:26} {before:9.3f} {after:9.3f} {after / before:7.4f}   {ratios[0]:.4f} to {ratios[-1]:.4f}", flush=True)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", nargs="?")
    parser.add_argument("after", nargs="?")
    parser.add_argument("--layouts", type=int, default=len(LAYOUTS))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--devices", default="cpu-fp32,cpu-bf16,reference-fp64")
    parser.add_argument("--after-device")
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--time", type=int, metavar="K")
    arguments = parser.parse_args()
    if arguments.list:
        for name, (ranks, model, layout, sets) in LAYOUTS.items():
            print(f"{name:24} {ranks} ranks, {model['family']}, {json.dumps({**layout, **sets})}")
        return 0
    if arguments.before is None or arguments.after is None:
        parser.error("name two binaries: BEFORE AFTER")
    binaries = [pathlib.Path(shutil.which(name) or name).resolve() for name in (arguments.before, arguments.after)]
    for binary in binaries:
        if not os.access(binary, os.X_OK):
            parser.error(f"{binary} is not a program")
    with tempfile.TemporaryDirectory(prefix="same-bits-") as name:
        folder = pathlib.Path(name)
        try:
            prepare(binaries[0], folder)
            if arguments.instructions:
                return count_instructions(binaries, folder)
            if arguments.time:
                return measure_time(binaries, folder, arguments.time)
        except Difference as difference:
            print(difference, file=sys.stderr)
            return 2
        return check_bits(binaries, folder, arguments)


if __name__ == "__main__":
    sys.exit(main())
