#!/usr/bin/env python3
"""Plants violations of the floors in small trees and sees that the check finds each, and only those."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_floors.py")


def check(files):
    """Runs the check on a tree of {path: text}; returns (exit status, output)."""
    with tempfile.TemporaryDirectory() as tree:
        for path, text in files.items():
            full = os.path.join(tree, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)
        result = subprocess.run([sys.executable, CHECK, tree], capture_output=True, text=True, check=False)
        return result.returncode, result.stdout + result.stderr


class Floors(unittest.TestCase):
    def assert_legal(self, path, text):
        status, output = check({path: text})
        self.assertEqual(status, 0, output)

    def assert_fault(self, path, text, *words):
        status, output = check({path: text})
        self.assertEqual(status, 1, output)
        for word in words:
            self.assertIn(word, output)

    def test_downward_is_legal(self):
        self.assert_legal("train/loop.c", '#include "train/loop.h"\n#include "base/log.h"\n#include <stdio.h>\n')
        self.assert_legal("device/cpu/matmul.c", "#include <dnnl.h>\n#include <oneapi/dnnl/dnnl.h>\n")
        self.assert_legal("comm/mesh.c", "#include <mpi.h>\n")
        self.assert_legal("plan/cost.c", '#include "device/dtype.h"\n#include "schedule/layout.h"\n')
        self.assert_legal("base/number.c", '#include "device/dtype.h"\n')

    def test_upward_is_named_with_its_line(self):
        self.assert_fault("base/log.c", '\n#include "train/loop.h"\n', "log.c:2:", "train/ is a floor above base/")
        self.assert_fault("ops/linear.c", '  #  include  "model/model.h"\n', "model/ is a floor above ops/")
        self.assert_fault("data/corpus.h", "#include <cli/cli.h>\n", "cli/ is a floor above data/")
        self.assert_fault("device/cpu/kernels/norm.c", '#include "ops/op.h"\n', "ops/ is a floor above device/")

    def test_the_librarys_headers_are_its_own(self):
        self.assert_legal("api/plan.c", '#include "api/api.h"\n#include "plan/search.h"\n#include "trireme/plan.h"\n')
        self.assert_fault("plan/search.c", '#include "trireme/plan.h"\n', "which only api/ may")
        self.assert_fault("api/plan.c", '#include "comm/comm.h"\n', "api/ must not need comm/")

    def test_every_upward_pair_is_found(self):
        sys.path.insert(0, os.path.dirname(CHECK))
        import check_floors
        for low, floor in enumerate(check_floors.FLOORS):
            for above in check_floors.FLOORS[low + 1:]:
                self.assertIsNotNone(check_floors.check_include(floor, f'"{above}/thing.h"'), (floor, above))

    def test_a_devices_memory_is_taken_counted(self):
        call = "int a;\nstatus = device->kernels->memory_create(device, bytes, &pool);\n"
        self.assert_fault("train/thing.c", call, "thing.c:2: calls memory_create, which only device/ may")
        self.assert_fault("ops/thing.c", "k->memory_destroy (d, p, 3);\n", "use tri_device_memory_create and _destroy")
        self.assert_legal("device/device.c", call)
        self.assert_legal("train/thing.c", "tri_device_memory_create(device, bytes, &pool); /* not k->memory_create(1) */\n")

    def test_files_are_opened_in_one_place(self):
        for call in ('FILE *f = fopen(path, "r");', "int f = open(path, O_RDONLY);", "f = openat (folder, name, 0);", "while (getline(&line, &room, f) > 0) {",
                     "getdelim(&line, &room, 0, f);", "root = json_load_file(path, 0, NULL);", "sqlite3_open_v2(path, &db, 1, NULL);", "sqlite3_open(path, &db);"):
            word = re.search(r"(\w+) ?\((?!getline)", call).group(1)
            self.assert_fault("board/thing.c", "int a;\n" + call + "\n", f"thing.c:2: calls {word}; use tri_file_open_plain")
            self.assert_legal("files/file.c", call)
            self.assert_legal("tune/store.c", call)
        self.assert_legal("device/gpu/thing.c", "runtime->open(ordinal, &context);\nall.open(3);\ntri_corpus_open(prefix, &c);\n")
        self.assert_legal("base/log.c", 'tri_fail(TRI_BAD_FILE, "fopen(3) and open(2): %s");\n/* or open(path) */\n')
        self.assert_fault("base/parent.c", "int a;\n", "opens nothing itself any more")

    def test_an_output_is_opened_before_it_is_written(self):
        first = "tri_status tri_training_open(tri_training *t, const char *resume) {\n  const int a = 1;\n  TRI_TRY(%s(world, t->config));\n  TRI_TRY(other(t));\n}\n"
        self.assert_legal("train/setup.c", first % "tri_run_output_open")
        self.assert_fault("train/setup.c", first % "tri_training_prepare_preferences", "tri_training_open must begin with tri_run_output_open")
        self.assert_fault("train/thing.c", "int a;\nTRI_TRY(tri_directory_create(config->output));\n", "thing.c:2: makes the output of a run")
        self.assert_legal("run/output.c", "TRI_TRY(tri_directory_create(config->output));\n")

    def test_line_numbers_survive_comments(self):
        self.assert_fault("base/log.c", '/* a\n b\n*/ // c\n#include "cli/cli.h"\n', "log.c:4:")
        self.assert_legal("base/log.c", '/*\n#include "cli/cli.h"\n*/\n')

    def test_planning_needs_no_machine(self):
        self.assert_fault("plan/cost.c", '#include "engine/peak.h"\n', "plan/ must not need engine/")
        self.assert_fault("plan/cost.c", '#include "device/device.h"\n', "plan/ must not need device/")

    def test_planning_reaches_no_machine_through_headers(self):
        tree = {
            "plan/cost.c": '#include "base/log.h"\n#include "ops/op.h"\n',
            "base/log.h": "int x;\n",
            "ops/op.h": '#include "base/log.h"\n#include "ops/run.h"\n',
            "ops/run.h": '#include "device/kernels.h"\n',
            "device/kernels.h": '#include "device/dtype.h"\n',
            "device/dtype.h": "int y;\n",
        }
        status, output = check(tree)
        self.assertEqual(status, 1)
        self.assertIn("plan/cost.c:2: includes ops/op.h, which brings in device/kernels.h by ops/run.h, but plan/ must not need device/",
                      output)
        self.assertIn("1 violations", output)
        for floor in ("base", "model", "schedule", "timeline"):
            _, output = check({**tree, f"{floor}/cost.c": tree["plan/cost.c"]})
            self.assertIn(f"{floor}/ must not need device/", output)
        # Formats and descriptions are words; what runs may reach a device; and a header that includes itself is not loop.
        status, output = check({**tree, "ops/op.h": '#include "device/dtype.h"\n#include "device/description.h"\n',
                                "device/description.h": '#include "device/description.h"\n', "engine/x.c": tree["ops/op.h"]})
        self.assertEqual(status, 0, output)
        status, output = check({"schedule/a.c": '#include "timeline/t.h"\n#include "model/m.h"\n',
                                "model/m.h": '#include "ops/p.h"\n', "ops/p.h": '#include "comm/mesh.h"\n'})
        self.assertIn("schedule/a.c:2: includes model/m.h, which brings in comm/mesh.h by ops/p.h", output)

    def test_vendors_stay_where_they_belong(self):
        self.assert_fault("ops/linear.c", "#include <dnnl.h>\n", "only device/ may")
        self.assert_fault("train/loop.c", "#include <oneapi/dnnl/dnnl.h>\n", "only device/ may")
        self.assert_fault("ops/linear.c", "#include <cuda_runtime.h>\n", "only device/ may")
        self.assert_fault("train/loop.c", "#include <mpi.h>\n", "only comm/ may")
        self.assert_fault("device/cpu/x.c", "#include <mpi.h>\n", "only comm/ may")

    def test_what_cannot_be_checked_is_a_fault(self):
        self.assert_fault("base/log.c", "#include HEADER\n", "a macro")
        self.assert_fault("base/log.c", '#include "log.h"\n', "names no floor")
        self.assert_fault("base/log.c", '#include "../train/loop.h"\n', "names no floor")
        self.assert_fault("attic/old.c", "int x;\n", "stands on no floor")

    def test_functions_of_tables_have_names_of_their_own(self):
        add = "static int %s(void) { return 1; }\nconst op t = {.name = \"add\", .forward = %s};\n"
        status, output = check({"ops/add.c": add % ("forward", "forward"), "ops/gelu.c": add % ("forward", "forward")})
        self.assertEqual(status, 1)
        self.assertIn("a table's function is called forward, and so is one of", output)
        status, output = check({"ops/add.c": add % (("op_add_forward",) * 2), "ops/gelu.c": add % (("op_gelu_forward",) * 2)})
        self.assertEqual(status, 0, output)
        # Functions that are in no table may have the same name.
        status, output = check({"ops/add.c": "static int half(void) {\n}\n", "ops/gelu.c": "static int half(void) {\n}\n"})
        self.assertEqual(status, 0, output)

    def test_an_empty_tree_is_no_pass(self):
        status, output = check({})
        self.assertNotEqual(status, 0)
        self.assertIn("there are no sources", output)


if __name__ == "__main__":
    unittest.main()
