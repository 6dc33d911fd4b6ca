"""tests/core.py names all registered items, and no others, with cases that exist.

The program prints its commands, and the keys of run files with their values; devices and operations are read from the tables in their
sources. A table without items fails."""
import copy
import importlib.util
import json
import os
import pathlib
import re
import sys

import pytest
from parity import trireme

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import table  # noqa: E402

KINDS = ["families", "optimizers", "schedules", "operations", "devices", "commands", "sections"]


def core_table():
    spec = importlib.util.spec_from_file_location("core", ROOT / "tests/core.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.CORE


# ---- registered items ------------------------------------------------------------------------------------------------

def keys_of_runs():
    """{key: its type} as the program prints them: `model.family` is `gpt2|llama|...`."""
    rows = [line.split() for line in trireme("train", "--keys").stdout.splitlines()]
    return {row[0]: row[1] for row in rows if len(row) > 1 and row[0] != "key"}


def device_kinds():
    """Returns the device kinds of the program and of the tests."""
    return {name for path in (ROOT / "src/device/kinds").glob("*.[ch]") for name in re.findall(r'\{[\s\\]*"([a-z]+)",', path.read_text())}


def operations_of(text, file):
    """Returns the names of the operations in a source file. Each is a constant with a name in its braces, or in those of a macro."""
    constants = re.findall(r"\bconst tri_(?:op|mesh_collective) (?:\w+) =.*?;", text, re.S)
    found = set()
    for constant in constants:
        names = re.findall(r'\.name = "([\w ]+)"', constant) or re.findall(r'\w+ = [A-Z_]+\("(\w+)"\)', constant)
        if not names:  # the name is in a macro of all functions
            assert "FUNCTIONS" in constant, (file, constant)
            names = re.findall(r'^#define FUNCTIONS\b.*?\.name = "(\w+)"', text, re.M | re.S)
        assert names, f"{file}: no name in {constant[:80]}"
        found |= set(names)
    return found


def operations_of_activations():
    """Three for each row of the list: alone, as a gate, and as a gate of experts."""
    rows = re.findall(r'^  X\([A-Z0-9_]+, \w+, "[\w ]+", "(\w+)", "(\w+)", ', (ROOT / "src/device/activation.h").read_text(), re.M)
    assert rows, "no rows in src/device/activation.h"
    return {name for alone, gate in rows for name in (alone, gate, f"weighted_{gate}")}


def operations():
    found = {name for path in sorted((ROOT / "src/ops").glob("*.c")) for name in operations_of(path.read_text(), path.name)}
    return found | operations_of_activations()


def registered():
    keys = keys_of_runs()
    found = {
        "families": set(keys["model.family"].split("|")),
        "optimizers": set(keys["optimizer.name"].split("|")),
        "schedules": set(keys["layout.schedule"].split("|")),
        "operations": operations(),
        "devices": device_kinds(),
        "commands": set(re.findall(r"^  ([a-z]+) ", trireme("--help").stdout, re.M)),
        "sections": {key for key, kind in keys.items() if "." not in key and kind.split("|")[-1] == "keys"},
    }
    assert list(found) == KINDS
    for kind, names in found.items():
        assert len(names) > 3, f"{kind}: {sorted(names)} are too few to be all"
    return found


# ---- faults of a table -----------------------------------------------------------------------------------------------

def faults_of_names(core, found):
    faults = [f"tests/core.py has no {kind}" for kind in [*KINDS, "promises"] if kind not in core]
    for kind in KINDS:
        mine = core.get(kind, {})
        faults += [f"{kind}: {name} has no core case" for name in sorted(found[kind]) if not mine.get(name)]
        faults += [f"{kind}: {name} is not registered any more" for name in sorted(mine) if name not in found[kind]]
    faults += [f"promises: {name} has no core case" for name, cases in core.get("promises", {}).items() if not cases]
    return faults


def cases_of(core):
    return sorted({case for table in core.values() for cases in table.values() for case in cases})


def names_of_programs():
    """Of tests/table.py."""
    build = json.loads((pathlib.Path(os.environ["TRIREME"]).parent / "tests.json").read_text()) | {"python": sys.executable}
    return {program.name for program in table.programs(build)}


def fault_of_case(case, programs):
    """Returns the fault of a case's name, or None. Does not check that its parameters exist."""
    kind, _, rest = case.partition("/")
    if kind in ("oracle", "guarded", "emulated"):
        match = re.fullmatch(r"(test_\w+\.py)(?:::([A-Z]\w+))?::(test_\w+)(?:\[.+\])?", rest)
        if match is None:
            return f"{case} is not {kind}/test_FILE.py::test_NAME"
        path = ROOT / "tests/oracle" / match[1]
        if not path.exists():
            return f"{case}: there is no tests/oracle/{match[1]}"
        if re.search(rf"^ *def {match[3]}\(", path.read_text(), re.M) is None:
            return f"{case}: {match[1]} has no {match[3]}"
        return None
    return None if case in programs else f"{case}: tests/table.py has no such program"


def faults_of_cases(core):
    programs = names_of_programs()
    return [fault for fault in (fault_of_case(case, programs) for case in cases_of(core)) if fault]


# ---- the tests -------------------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def found():
    return registered()


def test_everything_has_a_case(found):
    assert faults_of_names(core_table(), found) == []


def test_every_case_exists():
    assert faults_of_cases(core_table()) == []


def test_planted(found):
    """One name less, and one too many: said by name, of every kind. So is a case that is not there."""
    for kind in KINDS:
        for name in core_table()[kind]:
            less = copy.deepcopy(core_table())
            del less[kind][name]
            assert faults_of_names(less, found) == [f"{kind}: {name} has no core case"]
        more = copy.deepcopy(core_table())
        more[kind]["abacus"] = ["unit/test_ops"]
        assert faults_of_names(more, found) == [f"{kind}: abacus is not registered any more"]
    for case in ("oracle/test_none.py::test_x", "oracle/test_core.py::test_none[x]", "unit/test_none", "comm/abacus", "floors/abacus", "guarded/x", "none/x"):
        faults = faults_of_cases({"families": {"gpt2": [case]}})
        assert len(faults) == 1 and faults[0].startswith(case), case
