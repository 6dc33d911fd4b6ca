"""Money, energy and failures in what `simulate` and `plan` say: closed forms by hand, the best interval between checkpoints by
Young's and Daly's formulas and by search, and the share of progress by runs that fail at random times."""
import json
import math
import os
import pathlib
import random
import re
import subprocess

import pytest

TRIREME = os.environ["TRIREME"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = dict(family="gpt2", num_layers=16, hidden_size=512, num_heads=8, vocab_size=16, max_sequence=256)
IDEAL = dict(hypothetical=True, node_devices=8, peak_bf16=1e12, vector_flops=1e30, memory_bytes=64e9, memory_bandwidth=1e30,
             links=[dict(name="all", bandwidth=1e30, latency=0)],
             efficiency=dict(matmul=1, matmul_half=0, attention=1, memory=1, link=1, launch=0))
NEW = ["aurora", "gh200", "h800", "l40s", "rtx4090", "dgx-h200", "dgx-b200", "gb200-nvl72", "mi300x", "lumi-g", "a100-40", "leonardo", "juwels-booster"]


def run(*arguments, status=0):
    done = subprocess.run([TRIREME, *map(str, arguments)], capture_output=True, text=True, timeout=100)
    assert done.returncode == status, (arguments, done.stderr)
    return done.stdout if status == 0 else done.stderr


def options(folder, command, devices, *more, **cluster):
    for name, value in (("model", MODEL), ("cluster", dict(IDEAL, **cluster))):
        (folder / f"{name}.yaml").write_text(json.dumps(value))  # JSON is YAML
    return [command, "--model", folder / "model.yaml", "--cluster", folder / "cluster.yaml", "--devices", devices, "--global-batch", 64,
            *more]


def simulate(folder, devices, *more, **cluster):
    return json.loads(run(*options(folder, "simulate", devices, "--layout", "pipeline=2", "--json", *more, **cluster)))


def test_money_and_energy(tmp_path):
    """Of 16 devices on two nodes that compute in a part of the step and wait in the rest."""
    cost = dict(price=2.5, currency="EUR", device_power=700, idle_power=100, node_power=1000, pue=1.2)
    found = simulate(tmp_path, 16, "--tokens", 1e9, cost=cost)
    step, time = found["step_s"], found["time"]
    busy = time["compute"] + time["optimizer"]
    assert 0 < busy < 0.99 * step
    joules = 1.2 * (16 * (700 * busy + 100 * (step - busy)) + 2 * 1000 * step)
    steps = 1e9 / (64 * 256)
    assert found["cost"]["currency"] == "EUR"
    assert found["cost"]["price_per_step"] == pytest.approx(16 * 2.5 * step / 3600)
    assert found["cost"]["price"] == pytest.approx(steps * 16 * 2.5 * step / 3600)
    assert found["cost"]["kwh_per_step"] == pytest.approx(joules / 3.6e6)
    assert found["cost"]["kwh"] == pytest.approx(steps * joules / 3.6e6)
    assert found["cost"]["price"] == pytest.approx(2.5 * found["device_hours"])
    given = simulate(tmp_path, 16, "--price", 4, cost=cost)
    assert given["cost"]["price_per_step"] == pytest.approx(16 * 4 * step / 3600)


@pytest.mark.parametrize("node, pue, kind, counts, rest", [
    (0, 1, "devices", "of the devices alone", ", without the rest of their nodes (cost.node_power)"),
    (1000, 1, "nodes", "of whole nodes", ""), (1000, 1.25, "nodes", "of whole nodes, times a PUE of 1.25", ""),
    (0, 1.25, "devices", "of the devices alone, times a PUE of 1.25", ", without the rest of their nodes (cost.node_power)")])
def test_energy_says_what_it_counts(tmp_path, node, pue, kind, counts, rest):
    """8 devices of 700 W, busy or idle, and the rest of a node."""
    cost = dict(device_power=700, node_power=node, pue=pue)
    found = simulate(tmp_path, 8, "--tokens", 1e11, cost=cost)
    step = found["step_s"] * pue * (8 * 700 + node) / 3.6e6
    assert (found["cost"]["kwh_of"], found["cost"]["pue"], found["cost"]["kwh_per_step"]) == (kind, pue, pytest.approx(step))
    text = run(*options(tmp_path, "simulate", 8, "--layout", "pipeline=2", "--tokens", 1e11, "--html", tmp_path / "page.html", cost=cost))
    assert f", {rounded(found['cost']['kwh'])} kWh {counts}\n" in text and f"\na step takes {step:.4g} kWh {counts}{rest}\n" in text
    assert re.search(rf"<td>[\d.]+K kWh {counts}</td>", (tmp_path / "page.html").read_text().replace("<wbr>", ""))
    assert f"\nkWh are those {counts}\n" in run(*options(tmp_path, "simulate", "8,16", "--layout", "pipeline=2", cost=cost))


def test_nothing_is_said_of_what_is_not_known(tmp_path):
    found = simulate(tmp_path, 8)
    assert "cost" not in found and "failures" not in found
    text = run(*options(tmp_path, "simulate", 8, "--layout", "pipeline=2", "--tokens", 1e9))
    assert "kWh" not in text and "USD" not in text and "failures" not in text


def failing(folder, hours, restart, storage, copy=0.0):
    failures = dict(node_mtbf_hours=hours, restart=restart, storage_bandwidth=storage, copy_bandwidth=copy)
    return simulate(folder, 16, "--tokens", 1e9, failures=failures)


def daly(c, m):
    """Equation 37 of Daly 2006."""
    return m if c >= 2 * m else math.sqrt(2 * c * m) * (1 + math.sqrt(c / (2 * m)) / 3 + c / (2 * m) / 9) - c


def progress(interval, stop, behind, restart, m):
    """Equation 20 of Daly 2006, with `behind` as more of a restart."""
    return interval / (m * math.exp((restart + behind) / m) * math.expm1((interval + stop) / m))


@pytest.mark.parametrize("hours,restart,storage,copy", [(20, 60, 1e8, 0), (0.5, 30, 1e7, 0), (5000, 300, 1e9, 0), (2, 60, 1e7, 1e7),
                                                        (0.05, 5, 2e7, 1e9)])
def test_best_interval(tmp_path, hours, restart, storage, copy):
    found = failing(tmp_path, hours, restart, storage, copy)
    f = found["failures"]
    parameters = found["num_parameters"]
    assert f["checkpoint_bytes"] == pytest.approx(12 * parameters, rel=0.01)  # fp32 and AdamW's two moments
    m = hours * 3600 / 2
    assert f["hours_between"] == pytest.approx(hours / 2)
    written = f["checkpoint_bytes"] / storage
    stop, behind = (f["checkpoint_bytes"] / 16 / copy, written) if copy else (written, 0)
    assert (f["checkpoint_stops_s"], f["checkpoint_behind_s"]) == pytest.approx((stop, behind))
    assert f["young_interval_s"] == pytest.approx(math.sqrt(2 * stop * m))
    assert f["daly_interval_s"] == pytest.approx(daly(stop, m))
    best = f["best_interval_s"]
    assert f["goodput"] == pytest.approx(progress(best, stop, behind, restart, m))
    others = [best * 1.03 ** k for k in range(-150, 150)]
    allowed = [t for t in others if t + stop >= behind]
    assert max(progress(t, stop, behind, restart, m) for t in allowed) <= f["goodput"] * (1 + 1e-9)
    if best + stop > behind * 1.001 and stop < m / 10:
        assert best == pytest.approx(daly(stop, m), rel=0.01)
    steps = 1e9 / (64 * 256)
    assert f["days"] == pytest.approx(steps * found["step_s"] / 86400 / f["goodput"])


def fail_at_random(interval, stop, behind, restart, m, work, chance):
    """Simulates a run event by event, without a formula. Returns the seconds in which it does `work` seconds of training. A checkpoint of the
    state at the end of an interval is complete `stop` + `behind` seconds later; training continues after `stop`."""
    now, done, good, pending = 0.0, 0.0, 0.0, []  # pending: (time of completion, training seconds in it)
    fails = chance.expovariate(1 / m)

    def come_back():
        nonlocal now, done, good, fails, pending
        good = max([good] + [state for there, state in pending if there <= fails])
        pending = []
        now, done = fails, good
        while True:
            fails = now + chance.expovariate(1 / m)
            if fails > now + restart:
                now += restart
                return
            now = fails
    while good < work:
        if now + interval > fails:
            come_back()
            continue
        now, done = now + interval, done + interval
        if now + stop > fails:
            come_back()
            continue
        now += stop
        pending.append((now + behind, done))
        arrived = [state for there, state in pending if there <= now]
        good = max([good] + arrived)
        pending = [p for p in pending if p[0] > now]
    return now, good


@pytest.mark.parametrize("hours,restart,storage,copy", [(0.5, 30, 1e7, 0), (0.2, 20, 2e7, 1e8), (0.05, 5, 2e7, 1e9)])
def test_random_failures(tmp_path, hours, restart, storage, copy):
    f = failing(tmp_path, hours, restart, storage, copy)["failures"]
    m = f["hours_between"] * 3600
    chance = random.Random(20061)
    seconds, good = fail_at_random(f["best_interval_s"], f["checkpoint_stops_s"], f["checkpoint_behind_s"], restart, m,
                                   f["goodput"] * m * 40000, chance)
    # 40,000 failures: the share of progress has a relative deviation of a few over the square root of that
    assert good / seconds == pytest.approx(f["goodput"], rel=0.02)


def poisson(mean, most):
    return sum(math.exp(-mean) * mean ** k / math.factorial(k) for k in range(most + 1))


def test_noticing_and_spare_nodes(tmp_path):
    """Time to notice is more of a restart; a run waits while more nodes are under repair than are spare, and spare ones are paid for."""
    plain = dict(node_mtbf_hours=40, restart=30, storage_bandwidth=1e8)
    cost = dict(price=2.5, device_power=700, idle_power=100, node_power=1000)
    def of(**more):
        return simulate(tmp_path, 16, "--tokens", 1e9, failures=dict(plain, **more), cost=cost)
    base, noticed, longer = of(), of(notice=90), of(restart=120)
    assert noticed["failures"]["restart_s"] == 120 and noticed["failures"]["goodput"] == longer["failures"]["goodput"] < base["failures"]["goodput"]
    mean = 5 / (40 / 2)  # nodes under repair
    for spare in (0, 1, 3):
        found = of(repair_hours=5, spare_nodes=spare)
        assert found["failures"]["availability"] == pytest.approx(poisson(mean, spare))
        assert found["failures"]["goodput"] == pytest.approx(base["failures"]["goodput"] * poisson(mean, spare))
        assert found["cost"]["price_per_step"] == pytest.approx(base["cost"]["price_per_step"] * (16 + 8 * spare) / 16)
        more = (8 * 100 + 1000) * spare * found["step_s"] / 3.6e6
        assert found["cost"]["kwh_per_step"] == pytest.approx(base["cost"]["kwh_per_step"] + more)
    assert base["failures"]["availability"] == 1


@pytest.mark.parametrize("spare, most, devices, nodes", [(0, None, 16, 2), (3, None, 40, 5), (3, 24, 24, 3), (3, 16, 16, 2)])
def test_reserved_devices_are_those_that_are_paid(tmp_path, spare, most, devices, nodes):
    """On 16 devices in 2 nodes of 8, with spare nodes as far as the machine has them: in JSON, the text, the page and the table."""
    machine = dict(cost=dict(price=2.5, device_power=700), failures=dict(node_mtbf_hours=40, restart=30, storage_bandwidth=1e8, repair_hours=1, spare_nodes=spare))
    if most:
        machine["max_devices"] = most
    found = simulate(tmp_path, 16, "--tokens", 1e12, **machine)
    assert (found["reserved_devices"], found["reserved_nodes"]) == (devices, nodes)
    assert found["failures"]["availability"] == pytest.approx(poisson(1 / (40 / 2), nodes - 2))
    hours = found["failures"]["days"] * 24
    assert (found["reserved_device_hours"], found["reserved_node_hours"]) == pytest.approx((hours * devices, hours * nodes))
    assert found["cost"]["price"] == pytest.approx(2.5 * found["reserved_device_hours"])
    assert found["device_hours"] == pytest.approx(hours * found["failures"]["goodput"] * 16)  # as before: without failures and spare nodes
    text = run(*options(tmp_path, "simulate", 16, "--layout", "pipeline=2", "--tokens", 1e12, "--html", tmp_path / "page.html", **machine))
    page = re.sub("<[^>]*>", " ", (tmp_path / "page.html").read_text())
    table = run(*options(tmp_path, "simulate", "8,16", "--layout", "pipeline=2", "--tokens", 1e12, **machine)).splitlines()[3].split()
    all_hours, compute = rounded(hours * devices), rounded(hours * 16)
    assert float(table[10].replace(",", "")) == pytest.approx(hours * devices, rel=1e-3)
    if nodes > 2:
        said = f"reserved with {nodes - 2} spare node{'s' * (nodes > 3)}; {compute}"
        assert f", {all_hours} device-hours, {rounded(hours * nodes)} node-hours ({said} device-hours without), " in text
        assert re.search(rf" device-hours +{all_hours} \({said} without\)", page), page
    else:
        assert f", {compute} device-hours, {rounded(hours * 2)} node-hours, " in text and "reserved" not in page
    exist = f"nodes: {nodes - 2} of 3 spare nodes exist, because the machine has {most} devices (max_devices)"
    assert (exist in text) == (most is not None) == (exist in page)


def best_progress(stop, restart, m):
    """The goodput with the best interval, found by trying intervals."""
    return max(progress(m * 1.002 ** -k, stop, 0, restart, m) for k in range(8000))


def test_the_name_of_a_device(tmp_path):
    """Is that of the file: a device of Frontier is half a card, so its hours are not GPU-hours."""
    words = ["--model", "gpt2-124m", "--global-batch", 64, "--tokens", "1B"]
    for cluster, name in (("frontier", "GCD"), ("lumi-g", "GCD"), ("dgx-h100", "GPU"), ("mi300x", "GPU")):
        one = ["--cluster", cluster, *words, "--layout", "micro_batch=1"]
        found = json.loads(run("simulate", *one, "--devices", 8, "--json"))
        hours = found["step_s"] * 1e9 / (64 * 1024) / 3600 * 8 / found.get("failures", {}).get("goodput", 1)
        assert found["device_name"] == name and found["reserved_device_hours"] == pytest.approx(hours)
        said = run("simulate", *one, "--devices", 8, "--html", tmp_path / "page.html")
        assert f", {rounded(hours)} {name}-hours, {rounded(hours / 8)} node-hours" in said and f"<th>{name}-hours</th>" in (tmp_path / "page.html").read_text()
        table = run("simulate", *one, "--devices", "8,16")
        assert f" {name}-h " in table.splitlines()[1] and f"\n{name}-hours" in table
    other = run(*options(tmp_path, "simulate", 8, "--layout", "pipeline=2", "--tokens", 1e9, device_name="Tile"))
    assert re.search(r", [\d.]+ Tile-hours, ", other)
    for wrong, why in (("", "must not be empty"), ("a" * 16, "may have at most 15 bytes"), (["GPU"], "must be a text")):
        said = run(*options(tmp_path, "simulate", 8, "--layout", "pipeline=2", device_name=wrong), status=3)
        assert "`device_name`" in said and why in said, said


def test_advice_on_spare_nodes(tmp_path):
    """32 nodes that fail once in 500 hours and take 48 hours to repair: 3.072 under repair in the mean, so with one spare node enough work in
    19 % of the time; 6 are the fewest with which they do in 95 %."""
    mean = 32 * 48 / 500
    assert poisson(mean, 1) == pytest.approx(0.1887, abs=1e-4) and poisson(mean, 5) < 0.95 <= poisson(mean, 6) == pytest.approx(0.9627, abs=1e-4)
    failures = dict(node_mtbf_hours=500, repair_hours=48, spare_nodes=1, restart=60, storage_bandwidth=1e9)
    def of(**cluster):
        return simulate(tmp_path, 32, node_devices=1, failures=failures, **cluster)["failures"]
    found = of()
    without = found["goodput"] / poisson(mean, 1)
    assert found["advice"] == dict(key="failures.spare_nodes", value=6, goodput=pytest.approx(without * poisson(mean, 6)))
    text = run(*options(tmp_path, "simulate", 32, "--layout", "pipeline=2", "--html", tmp_path / "page.html", node_devices=1, failures=failures))
    line = f"advice: most of the lost time is due to failures.spare_nodes; with 6 instead of 1, {100 * without * poisson(mean, 6):.1f} % of the time would be progress"
    assert f"\n{line}\n" in text and f"<p>{line}</p>" in (tmp_path / "page.html").read_text()
    # of 35 nodes 3 are left; 0.95 of what these give takes all of them
    assert poisson(mean, 2) < 0.95 * poisson(mean, 3)
    assert of(max_devices=35)["advice"] == dict(key="failures.spare_nodes", value=3, goodput=pytest.approx(without * poisson(mean, 3)))
    assert "advice" not in of(max_devices=32)  # the machine has no other node


@pytest.mark.parametrize("keys, key, factor, said", [
    (dict(node_mtbf_hours=2, restart=1, storage_bandwidth=1e6), "storage_bandwidth", 2, "{:.4g} MB/s instead of 1 MB/s"),
    (dict(node_mtbf_hours=2, restart=1, node_storage_bandwidth=5e5), "node_storage_bandwidth", 2, "{:.4g} MB/s instead of 5e+05 B/s"),
    (dict(node_mtbf_hours=0.5, restart=600, storage_bandwidth=1e9), "restart", 0.5, "{:.4g} s instead of 600 s"),
    (dict(node_mtbf_hours=0.5, restart=1, notice=600, storage_bandwidth=1e9), "notice", 0.5, "{:.4g} s instead of 600 s")],
    ids=lambda x: x if isinstance(x, str) else "")
def test_advice_on_another_key(tmp_path, keys, key, factor, said):
    """Two nodes. The value is the first of a row by powers of two with 95 % of the progress at 2^20 times the key."""
    found = simulate(tmp_path, 16, failures=keys)["failures"]
    m = keys["node_mtbf_hours"] * 3600 / 2
    def at(power):
        other = dict(keys, **{key: keys[key] * factor ** power})
        rate = other.get("storage_bandwidth", 2 * other.get("node_storage_bandwidth", 0))
        return best_progress(found["checkpoint_bytes"] / rate, other["restart"] + other.get("notice", 0), m)
    assert at(0) == pytest.approx(found["goodput"], rel=1e-4) and found["goodput"] < 0.9
    power = next(p for p in range(1, 21) if at(p) >= 0.95 * at(20))
    value = keys[key] * factor ** power
    assert 2 < power < 12 and found["advice"] == dict(key=f"failures.{key}", value=pytest.approx(value), goodput=pytest.approx(at(power), rel=1e-4))
    shown = said.format(value / (1e6 if "storage" in key else 1))
    text = run(*options(tmp_path, "simulate", 16, "--layout", "pipeline=2", failures=keys))
    assert f"advice: most of the lost time is due to failures.{key}; with {shown}, {100 * at(power):.1f} % of the time would be progress\n" in text


def test_no_advice(tmp_path):
    """If little time is lost, or no single key is the cause."""
    good = dict(node_mtbf_hours=5000, restart=60, storage_bandwidth=1e9)
    both = dict(node_mtbf_hours=0.5, restart=600, notice=600, storage_bandwidth=1e9)  # without one of them half of the time is still lost
    assert best_progress(0.6, 600, 900) - best_progress(0.6, 1200, 900) < (1 - best_progress(0.6, 1200, 900)) / 2
    for keys in (good, both):
        assert "advice" not in simulate(tmp_path, 16, failures=keys)["failures"]
        assert "advice:" not in run(*options(tmp_path, "simulate", 16, "--layout", "pipeline=2", failures=keys))


def rounded(count):
    """As reports print hours from 100 on."""
    for unit, word in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if count >= unit:
            return f"{count / unit:.1f}{word}"
    return f"{count:.0f}" if count >= 100 else f"{count:.2f}"


def test_operation_by_options(tmp_path):
    """--mtbf and --node-power override the file; keys of the file that they need are requested in an error message."""
    failures, cost = dict(node_mtbf_hours=40, restart=30, storage_bandwidth=1e8), dict(device_power=700)
    given = simulate(tmp_path, 16, "--mtbf", 10, "--node-power", 500, failures=failures, cost=cost)
    written = simulate(tmp_path, 16, failures=dict(failures, node_mtbf_hours=10), cost=dict(cost, node_power=500))
    assert given == written
    assumed = simulate(tmp_path, 16, "--mtbf", 10)
    assert assumed["failures"] == simulate(tmp_path, 16, failures=dict(node_mtbf_hours=10, restart=600, node_storage_bandwidth=2e9))["failures"]
    stored = simulate(tmp_path, 16, "--mtbf", 10, "--storage", 5e8, failures=dict(restart=30, node_storage_bandwidth=1e8))
    assert stored["failures"] == simulate(tmp_path, 16, failures=dict(node_mtbf_hours=10, restart=30, node_storage_bandwidth=5e8))["failures"]
    said = run(*options(tmp_path, "simulate", 8, "--layout", "pipeline=2", "--mtbf", 10))
    assert "not in the file of the cluster, so taken from presets: checkpoints at 2 GB/s a node (--storage), 600 s to restart\n" in said
    assert "--storage is for runs with failures, and the file of " in run(*options(tmp_path, "simulate", 8, "--layout", "pipeline=2", "--storage", 1e9), status=2)
    assert "has no `cost.device_power`" in run(*options(tmp_path, "simulate", 8, "--layout", "pipeline=2", "--node-power", 10), status=2)


@pytest.mark.parametrize("devices, given, file, rate, limit", [
    (8, 5e8, dict(node_storage_bandwidth=1e8), 5e8, "node_storage_bandwidth"),   # one node
    (64, 5e8, dict(node_storage_bandwidth=1e8), 4e9, "node_storage_bandwidth"),  # eight
    (64, 5e8, dict(storage_bandwidth=6e9), 4e9, "node_storage_bandwidth"),       # the storage takes more than the nodes send
    (64, 5e8, dict(storage_bandwidth=3e9), 3e9, "storage_bandwidth"),            # the storage takes less
    (64, None, dict(storage_bandwidth=3e9), 3e9, "storage_bandwidth"),
    (64, None, dict(storage_bandwidth=3e9, node_storage_bandwidth=1e8), 8e8, "node_storage_bandwidth")])
def test_storage_of_many_nodes(tmp_path, devices, given, file, rate, limit):
    """--storage is the speed of each node, as `node_storage_bandwidth` is; `storage_bandwidth` still limits all of them."""
    failures = dict(file, node_mtbf_hours=40, restart=30)
    more = ["--storage", given] if given else []
    found = simulate(tmp_path, devices, *more, failures=failures)["failures"]
    assert (found["checkpoint_bytes_per_s"], found["checkpoint_limit"]) == (rate, f"failures.{limit}")
    assert found["checkpoint_stops_s"] == pytest.approx(found["checkpoint_bytes"] / rate)
    text = run(*options(tmp_path, "simulate", devices, "--layout", "pipeline=2", *more, failures=failures))
    shown = f"{rate / 1e9:.4g} GB/s" if rate >= 1e9 else f"{rate / 1e6:.4g} MB/s"
    assert f", written at {shown} by all nodes together (failures.{limit}), pauses training for " in text
    said = " ".join(run("simulate", "--help").split())
    assert "--storage B bytes per second at which each node writes checkpoints, instead of `failures.node_storage_bandwidth` of the file; " in said


def test_failures_want_storage(tmp_path):
    said = run(*options(tmp_path, "simulate", 8, "--layout", "pipeline=2", failures=dict(node_mtbf_hours=100)),
               status=3)
    assert "storage_bandwidth" in said


@pytest.mark.parametrize("cluster", NEW)
def test_new_clusters(cluster):
    """They are read, and a step on them takes longer than its products at the peak would."""
    found = json.loads(run("simulate", "--model", "llama-3-8b", "--cluster", cluster, "--devices", {"l40s": 8, "rtx4090": 8, "aurora": 96}.get(cluster, 64), "--global-batch", 120 if cluster == "aurora" else 128,
                           "--sequence", 4096, "--layout", "tensor=4,zero=1,recompute=full", "--json"))
    assert 0.1 < found["mfu"] < found["hfu"] < 0.9
    assert found["accuracy"]["fitted"] == []


def test_range(tmp_path):
    """Each row equals the result of a search for its number alone."""
    rows = json.loads(run(*options(tmp_path, "plan", "8..32", "--json", cost=dict(price=1))))
    assert [row["devices"] for row in rows] == [8, 16, 32]
    for row in rows:
        alone = json.loads(run(*options(tmp_path, "plan", row["devices"], "--top", 1, "--json", cost=dict(price=1))))[0]
        assert {k: row[k] for k in alone} == alone
        assert row["scaling_efficiency"] == pytest.approx(row["tokens_per_s"] / row["devices"] / (rows[0]["tokens_per_s"] / 8))
    stepped = json.loads(run(*options(tmp_path, "plan", "8..32:8", "--json")))
    assert [row["devices"] for row in stepped] == [8, 16, 24, 32]
    text = run(*options(tmp_path, "plan", "8..32", cost=dict(price=1)))
    assert [line.split()[0] for line in text.splitlines() if line.strip()[:1].isdigit()] == ["8", "16", "32"]
    assert "efficiency" in text and "USD" in text


def test_range_without_a_layout(tmp_path):
    """A number of devices for which nothing is valid says so; the others are searched."""
    rows = json.loads(run(*options(tmp_path, "plan", "4096..32768", "--json")))
    assert [row["fits"] for row in rows][0] and not rows[-1]["fits"] and rows[-1]["reason"]
    assert "no layout is valid and fits: no layout of 32768" in run(*options(tmp_path, "plan", "4096..32768"))


@pytest.mark.parametrize("given,part", [("12..24", "whole nodes"), ("16..8", "after the dots"), ("8..x", "whole number"),
                                        ("8..16:0", "after the colon")])
def test_bad_ranges(tmp_path, given, part):
    said = subprocess.run([TRIREME, *map(str, options(tmp_path, "plan", given))], capture_output=True, text=True, timeout=100)
    assert said.returncode != 0 and part in said.stderr


def test_keys():
    assert "cost.price" in run("plan", "--keys", "clusters")
    assert "overlap_reductions" in run("plan", "--keys", "systems")
    assert "space" in run("tune", "--keys")
