#!/usr/bin/env python3
"""Checks that no module includes a header of a floor above its own: check_floors.py SRC.

The floors are the folders of src/, and docs/architecture.md says what lives on each. Also: what plans
knows nothing of what runs, nor of a device, by any chain of headers; only device/ sees the vendors' headers and only comm/ sees MPI's; only device/ calls what is behind the
counted functions for a device's memory; only named files open files themselves; functions of tables have names of their own. Prints one line for each violation and
exits with 1 if there was any.
"""

import os
import re
import sys

# From the ground up.
FLOORS = ["base", "files", "gguf", "page", "config", "mesh", "device", "comm", "launch", "ops", "model", "optimizers", "schedule", "timeline", "tokenizer", "reward", "chat",
          "data", "checkpoint", "llamacpp", "weights", "engine", "generation", "rollout", "run", "report", "recovery", "train", "plan", "options", "tune", "judge", "http", "board", "serve", "cli", "api"]

# Headers of device/ that every floor may include: number formats, losses of preferences, the description of a device and the
# values of a step are only types, which need no device.
FOR_ALL = {"device/activation.h", "device/exact_sum.h", "device/dtype.h", "device/nf4.h", "device/block_weights.h", "device/description.h", "device/preference.h", "device/policy.h",
           "device/step_values.h"}

# Floors that lie below and are still closed, since planning a run needs no machine to run on: neither by a header that a
# file names, nor by one that this brings in.
RUNNING = {"device", "comm", "launch", "weights", "engine", "generation", "rollout", "run", "report", "recovery", "train", "judge"}
CLOSED = {floor: RUNNING for floor in ("base", "files", "gguf", "page", "config", "mesh", "model", "schedule", "timeline", "plan", "options", "api")}

# libtrireme's headers (include/trireme), which are not the program's own words.
PUBLIC, PUBLIC_FLOOR = "trireme/", "api"

# Outside headers that one floor alone may see.
VENDORS = [
    (re.compile(r"^(dnnl|oneapi/|cuda|cublas|cudnn|cutlass|nccl|hip/|hip_|hipblas|rocblas|miopen|rccl)"), "device"),
    (re.compile(r"^mpi(-ext)?\.h$"), "comm"),
    (re.compile(r"^microhttpd\.h$"), "http"),
]

# Functions that only one floor may call. device/device.c counts the memory of a device; memory that other code created with
# the device's table would be missing in the count and would still be subtracted from it when it is released.
CALLS = [(re.compile(r"(?:->|\.)memory_(?:create|destroy)\s*\("), "device", "tri_device_memory_create and _destroy")]

# Files that another program may have written are opened with files/file.h and files/lines.h: these do not wait for a pipe, do
# not follow links where this is dangerous, and have limits. The files below open something themselves, each with a reason.
OPENING = re.compile(r"(?<![\w.>])(fopen|freopen|open|open64|openat|openat2|creat|getline|getdelim|json_load_file|sqlite3_open\w*)\s*\(")
INSTEAD = "tri_file_open_plain, tri_file_open_below or another function of files/file.h or files/lines.h"
OPENERS = {
    "base/child.c": "reads /proc; writes a log",
    "files/file.c": "is what others use",
    "gguf/writer.c": "opens the file that another rank has created",
    "files/folder_lock.c": "makes and reads locks, whose order of system calls is the point",
    "files/file_transaction.c": "makes and locks lists of its own",
    "base/parent.c": "reads /proc; makes files in a private folder",
    "base/process_identity.c": "reads /proc",
    "base/system.c": "reads /proc and /sys",
    "checkpoint/output.c": "writes files of its own, also past the page cache",
    "cli/help.c": "writes a file that the user names",
    "cli/main.c": "gives a program without standard streams /dev/null",
    "cli/running/ranks.c": "sends the output of all ranks but the first to /dev/null",
    "cli/running/train.c": "adds to a file of its run, after a look at its kind",
    "launch/supervisor.c": "reads /proc",
    "launch/stale_shm.c": "reads /proc and what this user's processes have left in /dev/shm",
    "comm/share.c": "opens memory of another rank through /proc",
    "launch/error_files.c": "reads a folder that this user alone may write in",
    "data/corpus.c": "maps a corpus, without waiting for a pipe, and refuses what is not a plain file",
    "data/output_file.c": "writes a file that the user names",
    "data/text_stream.c": "reads texts that the user names, pipes too",
    "device/gpu/cache.c": "writes files of its own",
    "recovery/snapshot.c": "maps files of its own in /dev/shm",
    "recovery/watchdog.c": "makes marks of its own, in a process that may do little else",
    "report/event_file.c": "makes a new file",
    "report/metrics.c": "adds to a file of its run",
    "train/samples.c": "adds to a file of its run",
    "train/rollout_record.c": "adds to a file of its run",
    "tune/store.c": "opens SQLite, guarded by tune/store_guard.h",
    "tune/store_peek.c": "opens SQLite, guarded by tune/store_guard.h, and opens for it without following links",
    "tune/tuner.c": "locks a folder",
}
# A static function, and the name of one in a table: `.forward = op_add_forward`.
STATIC = re.compile(r"^static (?:inline )?(?:const )?\w+(?: \w+)?[ *]+(\w+)\(", re.MULTILINE)
ENTRY = re.compile(r"\.\w+ = (\w+)(?=[,}\s;])")

INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*(.*?)[ \t]*$", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
TEXT = re.compile(r'"(?:\\.|[^"\\\n])*"')


def check_include(floor, target):
    """Returns why floor/ may not include target (as written, with its quotes or brackets), or None if it may."""
    match = re.match(r'^([<"])([^>"]+)[>"]', target)
    if not match:
        return f"includes {target}, a macro, which cannot be checked; write the header's name"
    header = match.group(2)
    for pattern, owner in VENDORS:
        if pattern.match(header) and floor != owner:
            return f"includes {header}, which only {owner}/ may; reach it through a header of {owner}/"
    if header.startswith(PUBLIC):
        return None if floor == PUBLIC_FLOOR else f"includes {header}, one of libtrireme's headers, which only {PUBLIC_FLOOR}/ may"
    folder = header.split("/")[0]
    if folder not in FLOORS or "/" not in header:
        if match.group(1) == '"':
            return f'includes "{header}", which names no floor; write it as "{floor}/..."'
        return None
    if header in FOR_ALL:
        return None
    if FLOORS.index(folder) > FLOORS.index(floor):
        return f"includes {header}, but {folder}/ is a floor above {floor}/"
    if folder in CLOSED.get(floor, ()):
        return f"includes {header}, but {floor}/ must not need {folder}/"
    return None


def check_file(path, floor):
    """Yields (line, fault) for each forbidden include or call of one file."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    # Blank out comments and keep their newlines, so that line numbers stay true.
    text = COMMENT.sub(lambda match: "\n" * match.group(0).count("\n"), text)
    for match in INCLUDE.finditer(text):
        fault = check_include(floor, match.group(1))
        if fault:
            yield text.count("\n", 0, match.start()) + 1, fault
    for pattern, owner, instead in CALLS:
        for match in pattern.finditer(text) if floor != owner else ():
            yield text.count("\n", 0, match.start()) + 1, f"calls {match.group(0)[:-1].lstrip('->.')}, which only {owner}/ may; use {instead}"


def check_openings(name, text):
    """Yields (line, fault) for what a file opens itself and is not in the table, or for its entry there if it opens nothing."""
    text = TEXT.sub('""', COMMENT.sub(lambda match: "\n" * match.group(0).count("\n"), text))
    found = list(OPENING.finditer(text))
    if name not in OPENERS:
        for match in found:
            yield text.count("\n", 0, match.start()) + 1, f"calls {match.group(1)}; use {INSTEAD}, or name the file and a reason in OPENERS of {os.path.basename(__file__)}"
    elif not found:
        yield 1, f"opens nothing itself any more; take it out of the table in {os.path.basename(__file__)}"


# The first call of a run, and the only file that makes its folder: otherwise a second run could change the first one's files.
OPENS_OUTPUT, MAKES_OUTPUT = ("train/setup.c", "tri_training_open", "tri_run_output_open"), "run/output.c"
MAKING = re.compile(r"\btri_directory_create\([^;]*\boutput\b")
FIRST_CALL = r"\b%s\([^;{]*\)\s*\{.*?TRI_TRY\(\s*(\w+)"


def check_output(name, text):
    """Yields (line, fault) where something below a run's output is written before tri_run_output_open has taken its lock."""
    text = TEXT.sub('""', COMMENT.sub(lambda match: "\n" * match.group(0).count("\n"), text))
    if name.split("/")[0] in ("run", "train", "recovery") and name != MAKES_OUTPUT:
        for match in MAKING.finditer(text):
            yield text.count("\n", 0, match.start()) + 1, f"makes the output of a run, which only {OPENS_OUTPUT[2]} may, with its lock"
    if name == OPENS_OUTPUT[0]:
        match = re.search(FIRST_CALL % OPENS_OUTPUT[1], text, re.DOTALL)
        if match is None or match.group(1) != OPENS_OUTPUT[2]:
            yield 1, f"{OPENS_OUTPUT[1]} must begin with {OPENS_OUTPUT[2]}: nothing is written below an output without its lock"


def check_names(texts):
    """Yields the functions of tables whose names are also names of static functions in other files: debuggers and profilers
    show only the names, so twenty functions called `forward` would look the same."""
    files = {}
    for path, text in texts.items():
        for name in set(STATIC.findall(text)):
            files.setdefault(name, []).append(path)
    for path, text in texts.items():
        for name in sorted(set(ENTRY.findall(text)) & set(STATIC.findall(text))):
            others = [other for other in files[name] if other != path]
            if others:
                yield f"{path}: a table's function is called {name}, and so is one of {others[0]}; give it a name that says whose it is"


def includes_of(text):
    """Yields (line, header) for each header of the tree that a file names."""
    text = COMMENT.sub(lambda match: "\n" * match.group(0).count("\n"), text)
    for match in INCLUDE.finditer(text):
        named = re.match(r'^"([^"]+)"', match.group(1))
        if named:
            yield text.count("\n", 0, match.start()) + 1, named.group(1)


def find_chain(headers, header, closed, seen):
    """The headers by which `header` brings in one of a closed floor: [header, ..., that one]; or None."""
    if header in FOR_ALL or header in seen:
        return None
    seen.add(header)
    if header.split("/")[0] in closed:
        return [header]
    for _, following in headers.get(header, ()):
        chain = find_chain(headers, following, closed, seen)
        if chain:
            return [header] + chain
    return None


def check_reach(texts, source):
    """Files of closed floors that reach what is closed to them through headers of open ones."""
    headers = {os.path.relpath(path, source): list(includes_of(text)) for path, text in texts.items()}
    for path in texts:
        floor = os.path.relpath(path, source).split(os.sep)[0]
        if floor not in CLOSED:
            continue
        for line, header in includes_of(texts[path]):
            chain = find_chain(headers, header, CLOSED[floor], set())
            if chain and len(chain) > 1:
                yield f"{path}:{line}: includes {header}, which brings in {' by '.join(reversed(chain[1:]))}, but {floor}/ must not need {chain[-1].split('/')[0]}/"


def check_tree(source):
    """All faults of a source tree as lines of text, and the number of files that were looked at."""
    faults, files, texts = [], 0, {}
    for folder, _, names in sorted(os.walk(source)):
        for name in sorted(names):
            if not name.endswith((".c", ".h", ".inc", ".cu", ".cuh")):
                continue
            path = os.path.join(folder, name)
            parts = os.path.relpath(path, source).split(os.sep)
            files += 1
            if len(parts) < 2 or parts[0] not in FLOORS:
                faults.append(f"{path}: stands on no floor; the floors are {', '.join(FLOORS)}")
                continue
            faults += [f"{path}:{line}: {fault}" for line, fault in check_file(path, parts[0])]
            with open(path, encoding="utf-8") as file:
                texts[path] = file.read()
            faults += [f"{path}:{line}: {fault}" for line, fault in check_openings("/".join(parts), texts[path])]
            faults += [f"{path}:{line}: {fault}" for line, fault in check_output("/".join(parts), texts[path])]
    faults += check_names(texts)
    faults += check_reach(texts, source)
    return faults, files


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: check_floors.py SRC")
    faults, files = check_tree(sys.argv[1])
    if files == 0:
        sys.exit(f"check_floors: there are no sources in {sys.argv[1]}")
    for fault in faults:
        print(fault)
    print(f"check_floors: {files} files, {len(faults)} violations")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
