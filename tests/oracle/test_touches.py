"""tests/touches.py: every folder of the sources has tests, and every test has a folder whose changes run it."""

import fnmatch
import json
import os
import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
sys.path.insert(0, str(TESTS))
import table
from touches import TOUCHES, patterns_of, touched_by, unit_touches

PATTERNS = sorted({pattern for patterns in TOUCHES.values() for pattern in patterns})
ORACLES = [path.name for path in sorted((TESTS / "oracle").glob("test_*.py"))]


def test_every_key_is_in_the_tree_and_every_folder_of_the_sources_is_a_key():
    assert [key for key in TOUCHES if not (ROOT / key).exists()] == []
    folders = [path for path in [*(ROOT / "src").iterdir(), *(ROOT / "src/device").iterdir()] if path.is_dir()]
    assert [str(path.relative_to(ROOT)) for path in folders if str(path.relative_to(ROOT)) not in TOUCHES] == []


def test_every_pattern_matches_a_test_of_python():
    names = [f"{device}/{name}" for device in ("oracle", "guarded", "emulated") for name in ORACLES]
    of_python = [pattern for pattern in PATTERNS if pattern.partition("/")[0] in ("oracle", "guarded", "emulated")]
    assert [pattern for pattern in of_python if not fnmatch.filter(names, pattern)] == []
    assert {pattern.partition("/")[0] for pattern in PATTERNS} <= {"oracle", "guarded", "emulated", "comm", "gpu", "floors"}


def test_every_pattern_matches_a_program():
    build = json.loads((pathlib.Path(os.environ["TRIREME"]).parent / "tests.json").read_text()) | {"python": sys.executable}
    names = [program.name for program in table.programs(build)]
    of_build = [pattern for pattern in PATTERNS if pattern.partition("/")[0] in ("comm", "gpu", "floors")]
    assert [pattern for pattern in of_build if not fnmatch.filter(names, pattern)] == []


def test_every_oracle_is_run_by_a_change_of_some_folder():
    assert [name for name in ORACLES if not any(fnmatch.fnmatch(f"oracle/{name}", pattern) for pattern in PATTERNS)] == []


def test_every_unit_test_is_run_by_a_change_of_some_folder():
    folders = [str(path.relative_to(ROOT)) for path in (ROOT / "src").rglob("*") if path.is_dir()]
    reached = {name for folder in folders for name in unit_touches(folder)}
    assert [path.stem for path in (TESTS / "unit").glob("test_*.c") if "unit/" + path.stem not in reached] == []


def test_a_changed_file_has_the_tests_of_the_nearest_folder():
    assert "unit/test_search" in touched_by("src/plan/search.c")
    assert "unit/test_kernels" in touched_by("src/device/cpu/matmul.c")
    assert "emulated/*" in touched_by("src/device/gpu/kernels/norm.c") and "comm/*" not in touched_by("src/device/cpu/matmul.c")
    assert touched_by("scripts/docs.sh") == ["oracle/test_docs_site.py"] and touched_by("LICENSE") is None


def test_a_changed_test_runs_itself_and_what_tests_share_runs_its_users():
    assert patterns_of(["tests/unit/test_metrics.c"]) == ["unit/test_metrics"] and "*/test_golden.py" in patterns_of(["tests/oracle/test_golden.py"])
    assert "unit/test_drawn_documents" in patterns_of(["tests/unit/draws.h"]) and "*/test_chat.py" in patterns_of(["tests/oracle/chat_tool.c"])
    assert "*/test_families.py" in patterns_of(["tests/oracle/family_cases.json"])
