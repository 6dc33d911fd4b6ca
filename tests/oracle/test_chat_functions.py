"""What templates may call and every operator, with odd arguments, beside jinja2 set up as transformers does: the same text,
or a failure of both. Trireme may also refuse by name (exit status 7) what Python takes; another text, or a text where
Python fails, is a mistake. The calls are drawn from the program's own tables (chat_tool --functions), so that a new
function is drawn without being named here."""
import copy
import json
import os
import random
import subprocess
import warnings

import pytest
from drawn import WHICH, turn

pytest.importorskip("jinja2")
import jinja2.ext
import jinja2.sandbox

TOOL = os.path.join(os.environ["TRIREME_TOOLS"], "chat_tool")
UNSUPPORTED = 7
EACH = 200 if WHICH == "all" else 25  # calls of each function

VARIABLES = dict(
    none=None, yes=True, no=False, zero=0, one=1, two=2, minus=-3, ten=10, large=2**53 + 1, most=2**63 - 1, least=-(2**63),
    half=0.5, real=3.0, below=-2.5, huge=1e300, exact=float(2**53), tiny=1e-7, empty="", a="a", abc="abc", spaced="  a b \t c\n ",
    words="one-two (three) [four] x\x00y", lines="a\nb\r\n\n c\rd\x0be\x1cf\x85g\u2028h", ended="x\n", returned="x\r", comma="a,b,,c,",
    many="aaaaaa", unicode="äÖ日本\U0001f600é e\u0301", digits=" 42 ", under="1_000", point="-3.75e1", hexa="0x1F", odd="1__0", plus="+7",
    zeros="007", quotes="it's \"q\" <b>&\\", special="straße ŉ İ", greek="ὈΔΥΣΣΕΎΣ", joined="ǆ ﬁ ª", space="\u00a0\u3000x\u2003", format="%d %s",
    dotted="0.1", key="k", list=[1, "a", None], numbers=[3, -1, 2.5, True], strings=["b", "A", "c"], nested=[[1, 2], [], ["a"]], nothing=[],
    dict={"k": 1, "B": "x", "a": None}, counts={"b": 2, "A": 3, "c": 1}, mixed={"a": 1, "b": "x"}, bare={},
    rows=[{"k": 1, "n": {"v": "p"}, "l": [5, 6]}, {"k": "", "n": {}, "l": []}, {"n": {"v": 0}}],
    tools=[{"name": "f", "x": [1.0, -0.0, 1e20, "é\x7f"]}])

STRINGS = [k for k, v in VARIABLES.items() if isinstance(v, str)]
NUMBERS = [k for k, v in VARIABLES.items() if isinstance(v, (bool, int, float))]
LISTS = [k for k, v in VARIABLES.items() if isinstance(v, list)]
DICTS = [k for k, v in VARIABLES.items() if isinstance(v, dict)]
BUILT = ["missing", "(1, 'a')", "(1, [2])", "()", "('a', 'b')", "range(3)", "range(5, 0, -2)", "dict.items()", "counts.keys()", "dict.values()",
         "dict | items", "strings | map('upper')", "list | reverse", "nothing | select", "namespace(a=1)", "range", "'<b>' | safe", "{1: 'one', 'x': 2}",
         "strings | map('abs')", "[missing]", "raise_exception", "abc.upper", "abc.isdigit", "dict.copy"]
SMALL = ["0", "1", "-1", "2", "3", "-2", "10", "yes", "none", "1.0", "100"]
SIGNS = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
NAMES = ["'k'", "'n.v'", "'l.0'", "'name'", "0", "'0'", "none", "'missing'", "1.5", "''", "'n.v.x'", "yes"]


def text(r):
    return r.choice([f"'{r.choice(['a', 'b', ' ', ',', '', 'A', 'ä', 'aa', '日', '-'])}'", r.choice(STRINGS)])


def value(r):
    kind = r.random()
    if kind < 0.3:
        return text(r)
    if kind < 0.5:
        return r.choice(SMALL + NUMBERS)
    if kind < 0.7:
        return r.choice(LISTS + DICTS)
    return r.choice(BUILT if kind < 0.9 else list(VARIABLES))


def arguments(r, f, named=()):
    """Mostly as many as there are parameters; now and then one too many, or a keyword that there is not."""
    most = min(f["most"], 4)
    count = r.randint(f["least"], most) if r.random() < 0.9 else r.randint(0, most + 1)
    given = [r.choice([text, value, lambda r: r.choice(SMALL)])(r) for _ in range(count)]
    if named:
        given = [r.choice(named) if i == 0 and r.random() < 0.85 else g for i, g in enumerate(given)]
    keywords = [p for p in f["parameters"] if p] + (["attribute", "default", "bogus"] if r.random() < 0.05 else [])
    while keywords and r.random() < (0.4 if len(keywords) else 0):
        if given and r.random() < 0.7:
            given.pop()
        given.append(f"{keywords.pop(r.randrange(len(keywords)))}={r.choice([text, value, lambda r: r.choice(SMALL)])(r)}")
    given.sort(key=lambda g: "=" in g.split("(")[0] and "'" not in g.split("=")[0])
    return ", ".join(given)


def around(r, expression):
    return r.choice(["{{ EXPR }}", "{{ [EXPR] }}", "{{ EXPR | list }}", "{% for x in EXPR %}<{{ x }}>{% endfor %}", "{{ (EXPR) is defined }}",
                     "{{ 1 if EXPR else 2 }}", "{% set x = EXPR %}{{ x }}|{{ [x] }}", "{{ (EXPR) == (EXPR) }}", "{{ EXPR | first }}",
                     "{% set x = EXPR %}{{ x | first }}{{ x | list }}"] + ["{{ EXPR }}", "{{ [EXPR] }}"] * 6).replace("EXPR", expression)


def calls(r, tables):
    every = {name: sorted(tables[name], key=lambda f: f["name"]) for name in tables}
    tests = [f for f in every["tests"] if f["name"][0].isalpha()]
    chosen = [f"'{f['name']}'" for f in every["tests"]] + ["'nosuch'", "none"]
    mapped = [f"'{f['name']}'" for f in every["filters"]] + ["'nosuch'"]
    for f in every["filters"]:
        for _ in range(EACH):
            named = {"map": mapped, "select": chosen, "reject": chosen, "selectattr": NAMES, "rejectattr": NAMES}.get(f["name"], ())
            subject, given = value(r), arguments(r, f, named)
            if f["name"] == "map" and r.random() < 0.5:
                subject, given = r.choice(["rows", "nested", value(r)]), f"attribute={r.choice(NAMES)}" + r.choice(["", "", f", default={value(r)}"])
            if f["name"] in ("selectattr", "rejectattr") and r.random() < 0.7:
                subject, given = "rows", r.choice(NAMES) + (f", {r.choice(chosen)}" + r.choice(["", f", {value(r)}"]) if r.random() < 0.7 else "")
            if f["name"] == "int" and r.random() < 0.6:
                subject = text(r)
            if f["name"] == "dictsort" and r.random() < 0.6:
                subject, given = r.choice(DICTS), ", ".join([r.choice(["yes", "no", "0"]), r.choice(["'key'", "'value'"]), r.choice(["yes", "no"])][:r.randint(0, 3)])
            yield f"{subject} | {f['name']}" + (f"({given})" if given or r.random() < 0.3 else "")
    for f in tests:
        for _ in range(EACH):
            given = arguments(r, f)
            yield f"({value(r)}) is {r.choice(['', 'not '])}{f['name']}" + (f"({given})" if given else "")
    for kind, subjects in (("str", STRINGS + ["'a,b'", "' a '"]), ("dict", DICTS)):
        for f in every[kind]:
            for _ in range(EACH):
                yield f"{r.choice(subjects) if r.random() < 0.97 else '(' + value(r) + ')'}.{f['name']}({arguments(r, f)})"
    for f in every["globals"]:
        for _ in range(EACH):
            given = arguments(r, f)
            if f["name"] == "strftime_now" and r.random() < 0.8:
                given = "'" + r.choice(["%Y-%m-%d", "%d %b %Y", "%-d %B", "%A %j %%", "", "x", "%z", "%Z", "%f", "%q", "%", "ä%Y"]) + "'"
            yield f"{f['name']}({given})"


def operators(r):
    for _ in range(EACH * 40):
        kind = r.random()
        if kind < 0.6:
            sign = r.choice(SIGNS)
            right = r.choice(SMALL) if sign == "**" or r.random() < 0.3 else value(r)
            left = r.choice(NUMBERS) if sign in "/%**-" and r.random() < 0.7 else value(r)
            if sign in ("/", "//", "%", "-", "+", "<", "==", ">=") and r.random() < 0.4:
                left, right = r.choice(NUMBERS + SMALL), r.choice(NUMBERS + SMALL)
            yield f"({left}) {sign} ({right})"
        elif kind < 0.75:
            bounds = [r.choice(["", "", "0", "1", "-1", "2", "-2", "7", "-9", "most", "least", "none", "yes", "1.0", "missing"]) for _ in range(3)]
            yield f"({value(r)})[{':'.join(bounds[:r.randint(2, 3)])}]"
        elif kind < 0.85:
            yield f"({value(r)})[{r.choice(SMALL + [value(r)] * 5)}]"
        elif kind < 0.88:
            name = r.choice(["k", "foo", "upper", "real", "append", "index", "count", "items", "keys", "pop", "isdigit", "start", "a", "name"])
            yield f"({value(r)}).{name}"
        elif kind < 0.91:
            yield f"({value(r)}) {r.choice(SIGNS[8:16])} ({value(r)}) {r.choice(SIGNS[8:16])} ({value(r)})"
        elif kind < 0.94:
            yield f"{r.choice(['-', '+', 'not '])}({value(r)})"
        elif kind < 0.97:
            yield f"({value(r)} if {value(r)}){r.choice(['', ' | default(1)', ' ~ 1', ' == missing', '.x'])}"
        else:
            yield r.choice(["joiner", "cycler", "lipsum", "missing.x", "missing()", "missing[0]", "missing.x.y", "abc()", "dict.k()", "dict()", "range"])


def reference():
    """As transformers.utils.chat_template_utils makes its environment."""
    def raise_exception(message):
        raise jinja2.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def strftime_now(format):
        import datetime
        return datetime.datetime.now().strftime(format)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals.update(raise_exception=raise_exception, strftime_now=strftime_now)
    return environment


def rendered(environment, template):
    try:
        return environment.from_string(template).render(**copy.deepcopy(VARIABLES)), None  # `list | indent` adds to its list
    except (Exception, MemoryError) as error:  # of any kind: a template that fails is refused
        return None, f"{type(error).__name__}: {error}"


def test_functions():
    tables = json.loads(subprocess.run([TOOL, "--functions"], capture_output=True, text=True, check=True).stdout)
    r = random.Random(turn())
    templates = [around(r, expression) for expression in [*calls(r, tables), *operators(r)]]
    given = "".join(json.dumps(line) + "\n" for line in [VARIABLES, *templates])
    done = subprocess.run([TOOL, "--each"], input=given, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, (done.returncode, done.stderr)
    environment, wrong, refused, both = reference(), [], 0, 0
    warnings.simplefilter("ignore", SyntaxWarning)  # of constants that have no items
    for template, answer in zip(templates, done.stdout.split("\n")[:-1], strict=True):
        answer = json.loads(answer)
        text, error = rendered(environment, template)
        both += error is None and answer.get("text") == text
        if "error" in answer:
            # A generator's and a function's text is their place in memory.
            if error is None and " at 0x" not in text:
                refused += 1
                if answer["status"] != UNSUPPORTED:
                    wrong.append((template, text, answer["error"]))
        elif answer["text"] != text:
            wrong.append((template, text or error, answer["text"]))
    print(f"{len(templates)} templates: {both} of the same text, {refused} refused that Python renders")
    assert not wrong, f"{len(wrong)} of {len(templates)} (template, Jinja, Trireme):\n" + "\n".join(map(repr, wrong[:60]))
    assert both > len(templates) / 3 and refused < len(templates) / 6
