"""The file of costs, tests/costs.json: the cost of each case when all of them were measured (`make test-costs`).

There is one object per file of tests. A list is [processor seconds, wall seconds, commands started]. If the cases of a test
differ little, there is one list for all of them, with the name of the test. `@NAME` is a fixture that the cases of a file share."""
import json
import os
import re

from runner.cases import Cost

FILE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "costs.json")
UNKNOWN = Cost(10.0, 10.0)  # assumed for a case that was never measured


def split(name):
    """Splits the name of a case into its file and its test with the parameters."""
    file, _, item = name.partition("::")
    return file, item


def read(path=FILE):
    """{case, test or fixture: Cost}."""
    if not os.path.exists(path):
        return {}
    with open(path) as f:
        files = json.load(f)["costs"]
    return {f"{file}::{item}" if item else file: Cost(*cost) for file, items in files.items() for item, cost in items.items()}


def cost_of(costs, name):
    """The cost of a case or a fixture, or None if it was never measured."""
    return costs.get(name) or costs.get(name.split("[")[0])


def numbers_of(cost):
    return [round(cost.cpu_s, 2), round(cost.wall_s, 2), cost.commands]


def together(costs):
    """One cost for all cases of a test, or None where they differ by more than half a second and a half."""
    middle = Cost(*(sum(getattr(cost, key) for cost in costs) / len(costs) for key in ("cpu_s", "wall_s")), round(sum(cost.commands for cost in costs) / len(costs)))
    near = all(abs(getattr(cost, key) - getattr(middle, key)) <= max(0.25, getattr(middle, key) / 4) for cost in costs for key in ("cpu_s", "wall_s"))
    return middle if near else None


def write(costs, about, path=FILE):
    """Writes {name: Cost} so that a person can read the file, and a change of one cost is a change of one line."""
    files = {}
    for name in sorted(costs):
        file, item = split(name)
        files.setdefault(file, {}).setdefault(re.sub(r"\[.*", "", item), {})[item] = costs[name]
    out = {}
    for file, tests in files.items():
        rows = out[file] = {}
        for test, cases in tests.items():
            middle = together(list(cases.values()))
            rows.update({test: numbers_of(middle)} if middle else {item: numbers_of(cost) for item, cost in cases.items()})
    with open(path + ".new", "w") as f:
        f.write('{\n"about": ' + json.dumps(about) + ',\n"costs": {\n')
        f.write(",\n".join(json.dumps(file) + ": {\n" + ",\n".join(f" {json.dumps(item)}: {json.dumps(row)}" for item, row in rows.items()) + "\n}"
                           for file, rows in out.items()))
        f.write("\n}\n}\n")
    os.replace(path + ".new", path)
