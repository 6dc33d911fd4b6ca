"""A run's metrics as TensorBoard, Python's JSON and an XML parser read them."""

import glob
import json
import math
import os
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

TOOL = os.path.join(os.environ["TRIREME_TOOLS"], "metrics_tool")


def write(folder, first, last, *named):
    subprocess.run([TOOL, str(folder), str(first), str(last), *map(str, named)], check=True)


def lines(folder):
    def refuse(word):
        raise ValueError(f"{word} is not JSON")

    with open(folder / "metrics.jsonl", encoding="utf-8") as file:
        return [json.loads(line, parse_constant=refuse) for line in file]


def accumulate(folder):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(folder), size_guidance={accumulator.SCALARS: 0})
    events.Reload()
    return events


def test_tensorboard_reads_every_step(tmp_path):
    write(tmp_path, 1, 40)
    events = accumulate(tmp_path)
    assert set(events.Tags()["scalars"]) == {"loss", "validation_loss", "lr", "grad_norm", "tokens_per_s", "mfu"}
    for tag in ("loss", "lr", "grad_norm", "tokens_per_s", "mfu"):
        scalars = events.Scalars(tag)
        assert [s.step for s in scalars] == list(range(1, 41))
        for scalar, line in zip(scalars, lines(tmp_path)):
            if line[tag] is None:
                assert math.isnan(scalar.value)
            else:
                assert scalar.value == pytest.approx(line[tag], rel=1e-6)
    assert [s.step for s in events.Scalars("validation_loss")] == [10, 20, 30, 40]
    times = [s.wall_time for s in events.Scalars("loss")]
    assert times == sorted(times) and times[0] > 1.6e9


def test_metrics_of_a_task(tmp_path):
    """As many as a task may have: each under its own name, and only with the values that are known. A resumed run continues their lines."""
    write(tmp_path, 1, 4, 512)
    before = lines(tmp_path)
    write(tmp_path, 3, 5, 512)
    named = {name: value for name, value in lines(tmp_path)[1].items() if "/" in name}
    assert len(named) == 341 and named["rewards/part.1/mean"] == 3 and max(map(len, named)) == 103
    without_time = [[{name: value for name, value in line.items() if name != "time"} for line in some] for some in (lines(tmp_path)[:4], before)]
    assert without_time[0] == without_time[1]
    events = accumulate(tmp_path)
    assert {tag for tag in events.Tags()["scalars"] if "/" in tag} == set(named)
    for tag, value in named.items():
        assert [(s.step, s.value) for s in events.Scalars(tag)] == [(step, value + step - 2) for step in range(1, 6)]
    refused = subprocess.run([TOOL, str(tmp_path), "1", "1", "513"], capture_output=True, text=True)
    assert refused.returncode != 0 and "a run may have 512 metrics of its task" in refused.stderr


def test_a_resumed_run_takes_back_what_came_after_its_checkpoint(tmp_path):
    write(tmp_path, 1, 30)
    write(tmp_path, 21, 50)
    write(tmp_path, 46, 60)
    assert len(glob.glob(str(tmp_path / "events.out.tfevents.*"))) == 3
    events = accumulate(tmp_path)
    assert [s.step for s in events.Scalars("loss")] == list(range(1, 61))
    assert [s.step for s in events.Scalars("validation_loss")] == [10, 20, 30, 40, 50, 60]
    assert [line["step"] for line in lines(tmp_path)] == list(range(1, 61))


def test_the_record_framing_is_checked_by_somebody_else(tmp_path):
    """TensorBoard's reader verifies both checksums; a flipped bit must be noticed, else this test proves nothing."""
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    write(tmp_path, 1, 5)
    path = glob.glob(str(tmp_path / "events.out.tfevents.*"))[0]
    good = list(loader.RawEventFileLoader(path).Load())
    assert len(good) == 7  # version, session start, 5 steps
    with open(path, "r+b") as file:
        file.seek(len(file.read()) // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    broken = []
    try:
        broken = list(loader.RawEventFileLoader(path).Load())
    except Exception:  # which one depends on the reader
        pass
    assert len(broken) < len(good)


def test_json_files(tmp_path):
    write(tmp_path, 1, 40)
    all_lines = lines(tmp_path)
    assert all_lines[6]["loss"] is None and all_lines[6]["bad_steps"] == 1
    assert "validation_loss" in all_lines[9] and "validation_loss" not in all_lines[8]
    with open(tmp_path / "summary.json", encoding="utf-8") as file:
        summary = json.load(file)
    assert summary["steps"] == 40 and summary["tokens"] == 40 * 8192 and summary["bad_steps"] == 1
    assert summary["loss"] == pytest.approx(all_lines[-1]["loss"], rel=1e-14)
    validation = {line["step"]: line["validation_loss"] for line in all_lines if "validation_loss" in line}
    best = min(validation, key=validation.get)
    assert summary["best_validation_step"] == best
    assert summary["best_validation_loss"] == pytest.approx(validation[best], rel=1e-14)
    assert summary["peak_bytes_predicted"] == 1000 and summary["peak_bytes_measured"] == 1001
    assert summary["model"] == 'gpt2-"quoted"' and summary["host"] and summary["peak_rss_bytes"] > 1 << 20


def test_the_curve_is_well_formed(tmp_path):
    write(tmp_path, 1, 400)
    root = ElementTree.parse(tmp_path / "loss.svg").getroot()
    namespace = "{http://www.w3.org/2000/svg}"
    words = [element.text for element in root.iter(namespace + "text")]
    assert "gpt2 <tiny> & co" in words and "step" in words
    assert len(list(root.iter(namespace + "circle"))) == 40 + 1  # one a validation loss, one in the legend
    raw = [path for path in root.iter(namespace + "path") if path.get("stroke-opacity")][0]
    assert raw.get("d").count("M") == 2  # broken at the step without a loss
