"""The board's /metrics for Prometheus: its format by a strict reader, and its values beside the files of the runs."""
import json
import re

import pytest
from test_board import board, is_built, line_of, make_run  # noqa: F401  is_built skips a build without libmicrohttpd

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = rf'{NAME}="(?:[^"\\\n]|\\["\\n])*"'


def families(text):
    """{family: (kind, {labels: value})} of a text in the exposition format 0.0.4; anything else is an error."""
    out, name = {}, None
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        if found := re.fullmatch(rf"# HELP ({NAME}) (\S.*)", line):
            name = found[1]
            assert name not in out
        elif found := re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge|histogram)", line):
            assert found[1] == name
            out[name] = (found[2], {})
        else:
            found = re.fullmatch(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)", line)
            assert found and found[1] == name, line
            labels = tuple((key, re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), value)) for key, value in re.findall(rf'({NAME})="((?:[^"\\]|\\.)*)"', found[2] or ""))
            assert labels not in out[name][1]
            out[name][1][labels] = float(found[3])
    for name, (kind, _) in out.items():
        assert (kind == "counter") == name.endswith("_total"), name
    return out


def metrics(b, **more):
    status, headers, body = b.get("/metrics", **more)
    assert status == 200 and headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return families(body.decode())


def test_values_and_states(tmp_path):
    make_run(tmp_path / "one", 7, validation_loss=0.5)
    (tmp_path / "one/config.yaml").write_text("optimizer:\n  steps: 7\n")
    (tmp_path / "one/summary.json").write_text(json.dumps(dict(steps=7)))
    odd = 'a "quoted" \\ name'
    path = make_run(tmp_path / odd, 3)
    with path.open("a") as file:
        file.write(line_of(4, loss=None, bad_steps=1, peak_bytes=2**31))
    make_run(tmp_path / "deep/er/two", 1)
    (tmp_path / "deep/er/two/failures.txt").write_text("2026-11-30T10:00:00.000Z rank 0: out of memory\n")
    with board(tmp_path) as b:
        b.wait(lambda found: len(found["runs"]) == 3 and all(run["step"] for run in found["runs"]))
        listed = b.runs()
        found = metrics(b)
    value = lambda name, run: found[name][1][(("run", run),)]  # noqa: E731
    assert {labels[0][1] for labels in found["trireme_step"][1]} == set(listed) == {"one", odd, "deep/er/two"}
    assert [value("trireme_step", run) for run in ("one", odd, "deep/er/two")] == [7, 4, 1]
    assert value("trireme_planned_steps", "one") == 7 and (("run", odd),) not in found["trireme_planned_steps"][1]
    assert value("trireme_loss", "one") == pytest.approx(1 + 8 / 7) and value("trireme_loss", odd) == pytest.approx(1 + 8 / 3)  # the last that is a number
    assert value("trireme_validation_loss", "one") == 0.5 and (("run", odd),) not in found["trireme_validation_loss"][1]
    assert value("trireme_tokens_total", odd) == 512 * 4 and value("trireme_bad_steps_total", odd) == 1
    assert value("trireme_peak_memory_bytes", odd) == 2**31 and value("trireme_tokens_per_second", "one") == 2048 and value("trireme_mfu_ratio", "one") == 0.5
    assert value("trireme_last_step_timestamp_seconds", odd) == pytest.approx(path.stat().st_mtime, abs=1e-3)
    for run, state in (("one", "finished"), (odd, "interrupted"), ("deep/er/two", "failed")):
        states = {dict(labels)["state"]: value for labels, value in found["trireme_run_state"][1].items() if dict(labels)["run"] == run}
        assert sum(states.values()) == 1 and states[state] == 1 and len(states) == 6 and listed[run]["state"] == state


def test_runs_of_one_name(tmp_path):
    """Two folders may have runs of one name: then the label is the path."""
    for folder in ("a", "b"):
        make_run(tmp_path / folder / "run", 2)
    with board(tmp_path / "a/run", tmp_path / "b/run") as b:
        b.wait(lambda found: len(found["runs"]) == 2)
        labels = {labels[0][1] for labels in metrics(b)["trireme_step"][1]}
    assert labels in ({str(tmp_path / "a/run"), str(tmp_path / "b/run")}, {"a/run", "b/run"})


def test_it_requires_the_token(tmp_path):
    make_run(tmp_path / "one", 1)
    with board(tmp_path, more=("--host", "0.0.0.0")) as b:
        b.wait(lambda found: found["runs"])
        token, host = b.query["token"], {"Host": f"127.0.0.1:{b.port}"}
        assert b.get("/metrics", token=False, headers=host)[0] == 403
        assert b.get("/metrics", token=False, headers={**host, "Authorization": "Bearer " + "0" * len(token)})[0] == 403
        assert metrics(b, token=False, headers={**host, "Authorization": f"Bearer {token}"})["trireme_step"][1] == {(("run", "one"),): 1}
        assert metrics(b)["trireme_step"]
