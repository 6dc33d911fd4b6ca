#!/usr/bin/env python3
"""Which lines of src/ the tests run, by folder: coverage.py [--build FOLDER] [--source TREE] [--json FILE] [TREE:FILE ...].

Counts what a build with `--coverage` has left behind (`cmake --preset coverage`; then `BUILD=build/coverage scripts/test.sh ...`). A line
counts as run if any object that was compiled from it ran it: the kernels of several vector units, headers. Processes that are killed
write no counts, so what only they ran counts as not run.

  --build FOLDER    the build folder (build/coverage)
  --source TREE     the tree that was built (this one)
  --json FILE       writes {file: [lines, lines that ran]} there
  --clear           removes what earlier runs have counted, and does nothing else
  OTHER.json ...    further columns: what --json wrote before
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]


def counts_of(data, source):
    """{file below src/: {line: whether it ran}} of one object's counts."""
    done = subprocess.run(["gcov", "--json-format", "--stdout", data.name], cwd=data.parent, capture_output=True, text=True)
    found = {}
    for line in done.stdout.splitlines():
        for file in json.loads(line)["files"]:
            path = os.path.normpath(os.path.join(source, file["file"]))
            if not path.startswith(f"{source}/src/"):
                continue
            lines = found.setdefault(os.path.relpath(path, f"{source}/src"), {})
            for row in file["lines"]:
                lines[row["line_number"]] = lines.get(row["line_number"], False) or row["count"] > 0
    return found


def all_counts(build, source):
    # Notes without data are of objects that no process has ended with: none of their lines ran.
    objects = sorted(path.with_suffix(".gcda") if path.with_suffix(".gcda").exists() else path for path in build.rglob("*.gcno"))
    if not objects:
        raise SystemExit(f"coverage: {build} has no *.gcno; build it with `cmake --preset coverage && cmake --build --preset coverage`")
    files = collections.defaultdict(dict)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(lambda path: counts_of(path, source), objects):
            for file, lines in found.items():
                for line, ran in lines.items():
                    files[file][line] = files[file].get(line, False) or ran
    return {file: [len(lines), sum(lines.values())] for file, lines in files.items()}


def folder_of(file):
    parts = file.split("/")
    return "/".join(parts[:2] if parts[0] == "device" and len(parts) > 2 else parts[:1])


def by_folder(files):
    sums = collections.defaultdict(lambda: [0, 0])
    for file, (lines, ran) in files.items():
        for folder in (folder_of(file), "all"):
            sums[folder][0] += lines
            sums[folder][1] += ran
    return sums


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/coverage")
    parser.add_argument("--source", type=pathlib.Path, default=ROOT)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--clear", action="store_true")
    parser.add_argument("others", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    if options.clear:
        for path in options.build.rglob("*.gcda"):
            path.unlink()
        return
    files = all_counts(options.build.resolve(), str(options.source.resolve()))
    if options.json:
        options.json.write_text(json.dumps(files, indent=0, sort_keys=True))
    columns = [by_folder(files)] + [by_folder(json.loads(path.read_text())) for path in options.others]
    print("| folder | lines | " + " | ".join(["run here", *(path.stem for path in options.others)]) + " |")
    print("| --- | ---: |" + " ---: |" * len(columns))
    for folder in sorted(set().union(*columns), key=lambda name: (name == "all", name)):
        shares = [f"{100 * column[folder][1] / column[folder][0]:.1f} %" if column[folder][0] else "" for column in columns]
        print(f"| `{folder}` | {columns[0][folder][0]:,} | " + " | ".join(shares) + " |")


if __name__ == "__main__":
    main()
