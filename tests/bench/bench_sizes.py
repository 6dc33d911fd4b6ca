"""Makes the rows of docs/sizes.md: the losses of models of several sizes after some minutes on this machine.

Each row is one `trireme train configs/runs/shakespeare.yaml --set ...`, run alone and to its end; the table has the
numbers of its summary.json and metrics.jsonl. From the repository's root, on a quiet machine:

    python3 tests/bench/bench_sizes.py TEXT [ROW ...]

TEXT is Tiny Shakespeare, as nanoGPT has it: 1,115,394 bytes. Without ROW all rows run, some 40 minutes in all.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRIREME = os.environ.get("TRIREME", str(ROOT / "build" / "trireme"))

# Name: the keys that are set. Other keys are the run file's, such as its 16 sequences of 128 characters in a step.
ROWS = {
    "nanogpt-cpu": "data.sequence=64 layout.micro_batch=12 optimizer.global_batch=12 optimizer.lr=1e-3 "
    "optimizer.min_lr=1e-4 optimizer.steps=2000",
    "tutorial": "",
    "4x128": "optimizer.steps=5500",
    "6x192": "model.num_layers=6 model.hidden_size=192 model.num_heads=6 optimizer.lr=1.5e-3 optimizer.min_lr=1.5e-4 "
    "optimizer.steps=2000",
    "6x384": "model.num_layers=6 model.hidden_size=384 model.num_heads=6 optimizer.lr=1e-3 optimizer.min_lr=1e-4 "
    "optimizer.warmup=50 optimizer.steps=530",
}


def train(folder, name, sets):
    command = [TRIREME, "train", "configs/runs/shakespeare.yaml"]
    for word in sets.split():
        command += ["--set", word]
    command += ["--set", f"output=runs/{name}"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    summary = json.loads((folder / "runs" / name / "summary.json").read_text())
    last = json.loads((folder / "runs" / name / "metrics.jsonl").read_text().splitlines()[-1])
    return summary, last, " ".join(["trireme", *command[1:-2]])


def main():
    text, names = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:] or list(ROWS)
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        (folder / "configs").symlink_to(ROOT / "configs")
        prepare = [TRIREME, "prepare", "--tokenizer", "char", "--validation", "0.1", "--out", "shakespeare", str(text)]
        subprocess.run(prepare, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for name in names:
            summary, last, command = train(folder, name, ROWS[name])
            print(json.dumps({"row": name, "command": command, "last": last, "summary": summary}), flush=True)


if __name__ == "__main__":
    main()
