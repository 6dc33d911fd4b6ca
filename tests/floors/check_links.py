#!/usr/bin/env python3
"""Looks at what a program needs to run: check_links.py PROGRAM FILE...

FILE are other programs, and static libraries, that are looked into too. None may need MPI, PMIx or oneDNN, in shared libraries (ldd, with
those that they bring in) or in symbols (nm). Runs the program, which must end well. check_links.py --planted CC sees that
a program that calls such a thing is found.
"""

import os
import re
import subprocess
import sys
import tempfile

LIBRARIES = re.compile(r"lib(open-|mpi|mpich|pmi|pmix|prrte|dnnl|mkldnn|ucp|ucs|fabric)[^ ]*\.so")
SYMBOLS = re.compile(r"\b[UuWw] ((?:P?MPIX?|PMIx?|PMI2)_\w+|(?:ompi|opal|orte|dnnl)_\w+)")


def output_of(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"check_links: {' '.join(command)} has failed:\n{done.stderr}")
    return done.stdout


def faults_of(*files):
    for file in files:
        for line in output_of("ldd", file).splitlines() if not file.endswith((".a", ".o")) else ():
            if LIBRARIES.search(line):
                yield f"{file} needs the library {line.split()[0]}"
        for symbol in sorted({match.group(1) for match in SYMBOLS.finditer(output_of("nm", file))}):
            yield f"{os.path.basename(file)} needs the symbol {symbol}"


def planted(compiler):
    """An object that calls each, as an archive would hold it; and one that calls neither."""
    with tempfile.TemporaryDirectory() as folder:
        program, source, thing = (os.path.join(folder, name) for name in ("program", "thing.c", "thing.o"))
        for text, wanted in [("int MPI_Barrier(int); int PMIx_Get(void); int dnnl_memory_create(int);"
                              "int f(void) { return MPI_Barrier(1) + PMIx_Get() + dnnl_memory_create(2); }",
                              ["MPI_Barrier", "PMIx_Get", "dnnl_memory_create"]),
                             ("int puts(const char *); int f(void) { return puts(\"MPI_Barrier\"); }", [])]:
            with open(source, "w", encoding="utf-8") as file:
                file.write(text)
            output_of(compiler, "-c", source, "-o", thing)
            with open(source, "w", encoding="utf-8") as file:
                file.write("int main(void) { return 0; }")
            output_of(compiler, source, "-o", program)
            found = list(faults_of(program, thing))
            if [fault.split()[-1] for fault in found] != sorted(wanted):
                sys.exit(f"check_links: wanted {wanted}, found {found}")
    print("check_links: what was planted is found")


def main():
    if sys.argv[1] == "--planted":
        return planted(sys.argv[2])
    faults = list(faults_of(*sys.argv[1:]))
    print(output_of(sys.argv[1]).strip())
    for fault in faults:
        print(fault)
    print(f"check_links: {len(faults)} violations")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
