#!/usr/bin/env python3
"""Plants includes for nothing in small trees and sees that the check finds each, and only those."""
import os
import subprocess
import sys
import tempfile
import unittest

CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_includes.py")
LOW = """#ifndef LOW_H
#define LOW_H
typedef enum tri_kind { TRI_KIND_ONE, TRI_KIND_TWO = 4 } tri_kind;
typedef struct tri_low { int count; } tri_low;
typedef struct tri_opaque tri_opaque;
tri_low tri_low_make(int count);
extern const tri_low tri_lows[], tri_lowest;
#define LOW_MANY 3
#endif
"""
INSIDE = '#include "base/low.h"\nstruct tri_opaque { int depth; void (*call)(int); };\n'


def check(files):
    """Runs the check on a tree of {path: text}; returns (exit status, output)."""
    with tempfile.TemporaryDirectory() as tree:
        for path, text in {"base/low.h": LOW, "base/inside.h": INSIDE, **files}.items():
            full = os.path.join(tree, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)
        result = subprocess.run([sys.executable, CHECK, tree], capture_output=True, text=True, check=False)
        return result.returncode, result.stdout + result.stderr


class Includes(unittest.TestCase):
    def assert_found(self, text, found, header="base/low.h"):
        status, output = check({"plan/file.c": f'#include "{header}"\n#include <stdio.h>\n{text}\n'})
        self.assertEqual(status, int(found), output)
        self.assertEqual(f'plan/file.c: includes "{header}" and names nothing' in output, found, output)

    def test_any_name_will_do(self):
        for text in ("tri_kind k;", "int k = TRI_KIND_TWO;", "tri_low *l;", "void *p = tri_low_make;", "int n = sizeof tri_lows;",
                     "const void *q = &tri_lowest;", "int many = LOW_MANY;"):
            self.assert_found(text, False)

    def test_no_name(self):
        for text in ("", "int count;", "/* tri_low is not this one */", 'const char *t = "tri_low";', "tri_lower *l;"):
            self.assert_found(text, True)

    def test_members_of_what_another_header_opens(self):
        self.assert_found("int f(void *o) { return o->depth; }", False, "base/inside.h")
        self.assert_found("void g(void *o) { o->call(1); }", False, "base/inside.h")
        self.assert_found("int depth;", True, "base/inside.h")

    def test_names_in_a_list_of_rows(self):
        for row, found in (("ROW(tri_low)\n", False), ("ROW(low)\n", True)):
            status, output = check({"plan/rows.def": row, "plan/file.c": '#include "base/low.h"\n#define ROW(name)\n#include "plan/rows.def"\n'})
            self.assertEqual(status, int(found), output)

    def test_its_own_header(self):
        status, output = check({"base/low.c": '#include "base/low.h"\n'})
        self.assertEqual(status, 0, output)


if __name__ == "__main__":
    unittest.main()
