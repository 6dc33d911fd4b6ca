"""`configs/grafana/trireme-runs.json` and /metrics in Prometheus: promtool accepts the text, and each query of the dashboard has a result."""
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request

import pytest

TESTS = pathlib.Path(__file__).parent.parent
sys.path.append(str(TESTS / "oracle"))
from test_board import board, is_built, line_of, make_run  # noqa: E402, F401

pytestmark = pytest.mark.skipif(shutil.which("prometheus") is None or shutil.which("promtool") is None, reason="SKIPPED: Prometheus is not installed")


def queries():
    dashboard = json.loads((TESTS.parent / "configs/grafana/trireme-runs.json").read_text())
    return [(panel["title"], target["expr"].replace("$run", ".*")) for panel in dashboard["panels"] for target in panel["targets"]]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_the_dashboard(tmp_path):
    runs = tmp_path / "runs"
    path = make_run(runs / 'one "quoted"', 5, validation_loss=1.5)
    (path.parent / "config.yaml").write_text("optimizer:\n  steps: 9\n")
    make_run(runs / "two", 3)
    port = free_port()
    with board(runs) as b:
        b.wait(lambda found: len(found["runs"]) == 2 and all(run["step"] for run in found["runs"]))
        (path.parent / "LOCK").write_text("")
        checked = subprocess.run(["promtool", "check", "metrics"], input=b.get("/metrics")[2], capture_output=True)
        assert checked.returncode == 0 and checked.stderr + checked.stdout == b"", checked
        (tmp_path / "prometheus.yml").write_text(json.dumps(dict(scrape_configs=[dict(job_name="trireme", scrape_interval="1s", static_configs=[dict(targets=[f"127.0.0.1:{b.port}"])])])))
        words = ["prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data", f"--web.listen-address=127.0.0.1:{port}"]
        prometheus = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            results = {}
            until = time.monotonic() + 60
            while time.monotonic() < until and len(results) < len(queries()):
                for title, expression in queries():
                    try:
                        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode(dict(query=expression)), timeout=10) as answer:
                            found = json.loads(answer.read())["data"]["result"]
                    except OSError:
                        break
                    if found:
                        results[title] = found
                with path.open("a") as file:  # so that the run is in progress
                    file.write(line_of(6 + len(results), validation_loss=1.5))
                time.sleep(0.5)
        finally:
            prometheus.terminate()
            prometheus.wait(30)
    assert set(results) == {title for title, _ in queries()}
    labels = {found["metric"]["run"] for found in results["Training loss"]}
    assert labels == {'one "quoted"', "two"}
