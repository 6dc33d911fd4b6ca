"""`plan --days` beside the searches for each number of devices, the table of several numbers, and the pages of `plan --html` and `simulate --html`."""
import html.parser
import json
import re
import resource
import signal
import subprocess

import pytest
from test_plan import IDEAL, TRIREME, run, write

GPT2 = ["--model", "gpt2-1.5b", "--cluster", "frontier", "--global-batch", 512]
COSTS = dict(IDEAL, cost=dict(price=2, currency="EUR", device_power=500, idle_power=100, node_power=800, pue=1.1),
             failures=dict(node_mtbf_hours=20000, restart=600, storage_bandwidth=5e10))


class Page(html.parser.HTMLParser):
    """The headings, the table of facts, and whether every tag is closed."""
    def __init__(self, text):
        super().__init__()
        self.open, self.headings, self.facts, self.rows, self.cell, self.name, self.pictures = [], [], {}, 0, "", None, 0
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "link", "wbr", "br"):
            self.open.append(tag)
        self.pictures += tag == "svg"
        if tag in ("th", "td", "h1", "h2"):
            self.cell = ""

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag in ("h1", "h2"):
            self.headings.append(self.cell)
        elif tag == "th":
            self.name = self.cell
        elif tag == "td" and len(self.headings) == 1:
            self.facts[self.name] = self.cell
        self.rows += tag == "tr"

    def handle_data(self, data):
        self.cell += data


@pytest.fixture
def machine(tmp_path):
    return ["--model", "gpt2-124m", "--cluster", write(tmp_path / "cluster.yaml", COSTS), "--global-batch", 64]


def test_the_page_of_a_plan(tmp_path, machine):
    """Has the numbers of --json, and three alternatives."""
    words = [*machine, "--devices", 16, "--tokens", "300B", "--top", 3]
    best = json.loads(run("plan", *words, "--json", "--html", tmp_path / "a.html"))[0]
    text = run("plan", *words, "--html", tmp_path / "b.html")
    assert (tmp_path / "a.html").read_text() == (tmp_path / "b.html").read_text()
    page = Page((tmp_path / "a.html").read_text())
    assert page.headings == ["gpt2-124m on 16 devices of cluster", "Assumptions and accuracy", "Memory of the fullest device", "Time of a step", "Alternatives"]
    assert page.pictures == 2 and page.facts["devices"] == "16 (2 nodes)" and page.facts["layout"] in text
    days = best["failures"]["days"]
    assert page.facts["time, with failures"] == f"{days:.1f} days for 300.0B tokens"
    hours = days * 24 * 16
    for name, value in (("device-hours", hours), ("node-hours", hours / 8)):
        number = float(page.facts[name].rstrip("K")) * (1000 if page.facts[name].endswith("K") else 1)
        assert number == pytest.approx(value, rel=5e-2 if page.facts[name].endswith("K") else 1e-2)
    assert page.facts["cost"].endswith(" EUR") and page.facts["energy"].endswith(" kWh of whole nodes, times a PUE of 1.1") and page.facts["memory"].endswith(": fits")
    assert f"{best['step_s']:.4g} s for 64 sequences" in page.facts["step"]


def test_the_page_of_a_simulation(tmp_path, machine):
    words = [*machine, "--devices", 8, "--layout", "tensor=2,micro_batch=1"]
    found = json.loads(run("simulate", *words, "--json", "--html", tmp_path / "page.html"))
    page = Page((tmp_path / "page.html").read_text())
    assert page.headings == ["gpt2-124m on 8 devices of cluster", "Assumptions and accuracy", "Memory of the fullest device", "Time of a step"]
    assert page.facts["layout"].startswith("tensor=2,") and f"{found['step_s']:.4g} s" in page.facts["step"]
    assert {"device-hours of a step", "node-hours of a step", "cost of a step", "energy of a step"} < set(page.facts)


@pytest.mark.parametrize("tokens, days", [("100B", 30), ("100B", 10), ("1T", 20)])
def test_days(tokens, days):
    """The number is enough, its row is that of --devices N, and no smaller number that was tried is."""
    rows = json.loads(run("plan", *GPT2, "--days", days, "--tokens", tokens, "--json"))
    chosen, = [row for row in rows if row.get("chosen")]
    assert [row["devices"] for row in rows] == sorted({row["devices"] for row in rows})
    assert chosen["days"] <= days and all(row["days"] > days for row in rows if row["devices"] < chosen["devices"])
    alone, = json.loads(run("plan", *GPT2, "--devices", chosen["devices"], "--tokens", tokens, "--top", 1, "--json"))
    assert alone["layout"] == chosen["layout"] and alone["days"] == chosen["days"]
    said = run("plan", *GPT2, "--days", f"{days}d", "--tokens", tokens)
    assert f"the fewest devices that train {'100.0B' if tokens == '100B' else '1.0T'} tokens in {days} days\n" in said
    assert f"\n{chosen['devices']} devices are enough:\ngpt2-1.5b" in said and "the best of them:" in said


def test_days_with_failures(tmp_path, machine):
    """Days are those of the run with its failures."""
    rows = json.loads(run("plan", *machine, "--days", 2, "--tokens", "50B", "--json", "--html", tmp_path / "page.html"))
    chosen, = [row for row in rows if row.get("chosen")]
    assert chosen["failures"]["days"] <= 2 and "time, with failures" in Page((tmp_path / "page.html").read_text()).facts


@pytest.mark.parametrize("words, days, devices", [
    (["--model", "gpt2-124m", "--global-batch", 48, "--tokens", "1B", "--layout", "tensor=3"], 30, 3),  # no layout divides 8 or 16 devices
    (["--model", "gpt2-124m", "--global-batch", 128, "--tokens", "10B", "--layout", "tensor=2,pipeline=1"], 0.02, 32),
    (["--model", "gpt2-124m", "--global-batch", 128, "--tokens", "10B", "--layout", "tensor=3"], 0.02, 96)], ids=str)
def test_numbers_that_no_layout_divides(words, days, devices):
    """Are passed over, and say nothing about smaller and larger numbers."""
    rows = json.loads(run("plan", "--cluster", "dgx-h100", *words, "--days", days, "--json"))
    assert [row["devices"] for row in rows if row.get("chosen")] == [devices]


def test_a_machine_is_tried_whole(tmp_path):
    """Also if its number of devices is not of the series."""
    words = ["--model", "gpt2-124m", "--cluster", write(tmp_path / "cluster.yaml", dict(IDEAL, max_devices=72)), "--global-batch", 144, "--tokens", "100B"]
    alone, = json.loads(run("plan", *words, "--devices", 72, "--top", 1, "--json"))
    rows = json.loads(run("plan", *words, "--days", 1.0001 * alone["days"], "--json"))
    assert [row["devices"] for row in rows if row.get("chosen")] == [72]


def test_runs_that_never_end(tmp_path, machine):
    """Failures are more frequent than progress: no number is cut or negative, and nothing is left out without a word."""
    said = run("plan", *machine, "--devices", "512,1024", "--tokens", "1T", "--mtbf", 0.001)
    assert all(re.search(r" never +- +- +- ", line) for line in said.splitlines()[2:4]), said
    assert "the run never ends, because failures are more frequent than progress" in run("simulate", *machine, "--devices", 64, "--layout", "micro_batch=1", "--tokens", "1T", "--mtbf", 0.001)
    said = run("plan", *machine, "--days", 30, "--devices", "512,1024", "--tokens", "1T", "--mtbf", 0.001, status=3)
    assert "tokens: failures are more frequent than progress" in said
    rare = run("plan", *machine, "--devices", "64,128", "--tokens", "1T", "--mtbf", 0.02)
    assert "-9" not in rare and max(len(line) for line in rare.splitlines()[:4]) < 240, rare


def test_days_of_a_range():
    """The first number of a range or a list that is enough."""
    for devices, tried in (("16..128", [16, 32, 64]), ("96,16,64", [16, 64]), ("48..96:16", [48, 64])):
        rows = json.loads(run("plan", *GPT2, "--days", 30, "--tokens", "1T", "--devices", devices, "--json"))
        assert [row["devices"] for row in rows] == tried and [row.get("chosen", False) for row in rows] == [False] * (len(tried) - 1) + [True]


def test_table_of_devices(machine):
    """Has memory and device-hours, of a step or of all tokens."""
    for tokens, whole in (([], 64 * 1024), (["--tokens", "1B"], 1e9)):
        said = run("plan", *machine, "--devices", "8,16", *tokens)
        rows = json.loads(run("plan", *machine, "--devices", "8,16", *tokens, "--json"))
        head, *lines = said.splitlines()[1:4]
        assert re.split(r"  +", head.strip())[-5:] == ["device-h", "EUR", "kWh", "peak memory", "layout"]
        for line, row in zip(lines, rows):
            steps = whole / (64 * 1024) / row["failures"]["goodput"]
            fields = re.split(r" {2,}", line.strip())
            given = float(fields[-5].replace(",", ""))
            assert fields[-2].endswith("iB") and fields[-1].startswith("tensor=")
            assert given == pytest.approx((steps if tokens else 1) * row["step_s"] * row["devices"] / 3600, rel=5e-3)
        assert f"device-hours, money and energy are of {'1.0B tokens' if tokens else 'a step'}" in said


@pytest.mark.parametrize("words, status, said", [
    (["--days", 30], 2, "--days needs --tokens, the length of the run"),
    (["--days", 30, "--tokens", "1B", "--devices", 64], 2, "--days asks how many devices are needed; leave --devices out, or give a range or a list"),
    (["--days", "x", "--tokens", "1B"], 2, "--days takes a number, not `x`"),
    (["--days", 0, "--tokens", "1B"], 2, "--days must be from 0.001 to 100000, not 0"),
    (["--days", 30, "--tokens", "1B", "--pareto"], 2, "--pareto is for one number of devices; --days tries several"),
    (["--days", 0.02, "--tokens", "100B"], 3, "no number of devices of frontier that was tried trains 100.0B tokens in 0.02 days: the shortest run takes"),
    (["--days", 30, "--tokens", "1T", "--devices", "4,8"], 3, "days, on 8 devices; give more --days, fewer --tokens or a larger --global-batch"),
    (["--devices", 16, "--html", "no/such/page.html"], 2, "--html no/such/page.html: the folder no/such does not exist"),
    (["--devices", 16, "--html", ""], 2, "--html is empty; name a file"),
    (["--devices", 16, "--html", "."], 2, "--html . is a folder; name a file"),
    (["--devices", 16, "--html", "/dev/full"], 4, "/dev/full is a device"),
    (["--devices", "16,32", "--html", "page.html"], 2, "--html is for one number of devices; --devices is a range"),
    (["--devices", 16, "--pareto", "--html", "page.html"], 2, "--html is about the fastest layout; --pareto prints others")], ids=str)
def test_bad_input(tmp_path, words, status, said):
    done = subprocess.run([TRIREME, "plan", *map(str, GPT2), *map(str, words)], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == status and said in done.stderr and done.stderr.count("trireme: ") == 1, (done.returncode, done.stderr)
    assert not list(tmp_path.iterdir())


def test_a_full_disk(tmp_path, machine):
    """Says so, and leaves an older page as it was."""
    (tmp_path / "page.html").write_text("older")

    def limit_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    done = subprocess.run([TRIREME, "plan", *map(str, machine), "--devices", "8", "--html", tmp_path / "page.html"], capture_output=True, text=True,
                          preexec_fn=limit_files)
    assert done.returncode == 5 and "page.html" in done.stderr and (tmp_path / "page.html").read_text() == "older"
