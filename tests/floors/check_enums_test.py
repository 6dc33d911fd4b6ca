#!/usr/bin/env python3
"""Plants violations in small trees and expects check_enums.py to find each, and nothing in a tree without any."""

import json
import os
import subprocess
import sys
import tempfile

CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_enums.py")
ENUM = "typedef enum colour { RED, GREEN /* grass */ } colour;\n"
NAMED = "const char *name(colour c) {\n  switch (c) {\n    case RED: return \"r\";\n    case GREEN: return \"g\";\n  }\n  return 0;\n}\n"

LIST = "#define PLANETS(X) \\\n  /* red */ \\\n  X(MARS,  mars) \\\n  X(VENUS, venus)\n"
LIST += "#define PLANET(KIND, name) P_##KIND,\ntypedef enum planet { PLANETS(PLANET) } planet;\n"
ORBITS = "int orbit_mars(void) { return 4; }\nint orbit_venus(void) { return 2; }\n"
ORBITS += "#define ORBIT(KIND, name) orbit_##name,\nint (*const orbits[])(void) = {PLANETS(ORBIT)};\n"
NAMES = "#define NAME(KIND, name) #name,\nconst char *const names[] = {PLANETS(NAME)};\n"

# The content of a file, and a part of the message that it must cause, or "" for none.
TREES = [
    (NAMED, ""),
    (NAMED + "int f(int n) { switch (n) { case 1: return 2; default: return 3; } }\n", ""),
    (NAMED + "int f(colour c) { /* c == RED ? 1 : 2 */ return c == RED; }\n", ""),
    (NAMED + "int f(colour c) { return c == RED ? 1 : 2; }\n", "a two-way conditional on RED"),
    (NAMED + "int f(colour c) { return c != GREEN ? 1 : 2; }\n", "a two-way conditional on GREEN"),
    (NAMED + "int f(colour c) { switch (c) { case RED: return 1; default: return 2; } }\n", "has a default"),
    (NAMED + "const int sizes[] = {[RED] = 1, [GREEN] = 2};\n", "a table indexed by RED"),
    ("int f(colour c) { if (c == RED) return 1; return 2; }\n", "a new value of colour compiles everywhere"),
    (NAMED + LIST + ORBITS, ""),
    (NAMED + LIST + NAMES, "a new value of planet compiles everywhere"),
    (NAMED + LIST + ORBITS + "int f(planet p) { return p == P_MARS ? 1 : 2; }\n", "a two-way conditional on P_MARS"),
]


def said_of(body):
    with tempfile.TemporaryDirectory() as root:
        src = os.path.join(root, "src/base")
        os.makedirs(src)
        with open(os.path.join(src, "colour.h"), "w") as file:
            file.write(ENUM)
        path = os.path.join(src, "colour.c")
        with open(path, "w") as file:
            file.write('#include "base/colour.h"\n' + body)
        commands = [dict(directory=root, file=path, command=f"cc -I{root}/src -o colour.o -c {path}")]
        with open(os.path.join(root, "commands.json"), "w") as file:
            json.dump(commands, file)
        done = subprocess.run([sys.executable, CHECK, os.path.join(root, "src"), os.path.join(root, "commands.json"), "--planted"],
                              capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


def main():
    failures = 0
    for body, wanted in TREES:
        status, said = said_of(body)
        if status != (1 if wanted else 0) or wanted not in said:
            failures += 1
            print(f"FAILED: wanted `{wanted}`, got {status}:\n{said}\nof\n{body}")
    print(f"{len(TREES)} trees, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
