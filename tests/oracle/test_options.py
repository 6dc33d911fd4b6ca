"""Options that are misspelt, of every command: the nearest is named, or what there is; and advice with numbers in it, which is tried."""
import os
import re
import subprocess

from parity import TRIREME, trireme, yaml_of

MODEL = dict(family="gpt2", num_layers=2, hidden_size=32, num_heads=2, vocab_size=257, max_sequence=64)


def commands():
    """{name: its long options}, as --help says them."""
    listed = re.findall(r"^  ([a-z]+) ", trireme("--help").stdout, re.M)
    return {name: sorted(set(re.findall(r"(?<![a-z-])--([a-z][a-z-]+)", trireme(name, "--help").stdout))) for name in listed}


def test_misspelt_options():
    """Every option of every command with a letter too many leads to itself; what was written with one dash, too."""
    checked = 0
    for name, options in commands().items():
        for option in options:
            wrong = f"--{option[:-1]}q{option[-1]}"
            done = subprocess.run([TRIREME, name, wrong], capture_output=True, text=True, stdin=subprocess.DEVNULL)
            if f"{wrong} is not an option" not in done.stderr and f"`{wrong}` is not an option" not in done.stderr:
                continue  # an option of another command, which this one's help names
            assert done.returncode == 2
            meant = re.search(r"did you mean `?(--[a-z-]+)", done.stderr)
            checked += meant is not None and meant[1] == f"--{option}"
    assert checked > 120, checked
    for words, said in (
        (["generate", "x", "--top-kk", "5"], "--top-kk is not an option; did you mean --top-k?"),
        (["generate", "x", "--temprature=0"], "did you mean --temperature?"),
        (["generate", "--hlep"], "did you mean --help?"),
        (["prepare", "--hepl"], "did you mean `--help`?"),
        (["--hepl"], "`--hepl` is not an option; did you mean `--help`?"),
        (["--vresion"], "`--vresion` is not an option; did you mean `--version`?"),
        (["generate", "x", "-top-k", "5"], "-top-k is not an option; did you mean --top-k?"),
        (["generate", "x", "-z"], "-z is not an option; see trireme generate --help"),
        (["generate", "x", "--to", "5"], "--to can be --tokens, --top-k, --top-p, --tokenizer"),
        (["generate", "x", "--chat=3"], "--chat takes no value"),
        (["generate", "x", "--tokens"], "--tokens wants a value"),
        (["generate", "x", "--precision", "bf61"], "--precision is fp32, bf16 or fp64, not `bf61`; did you mean `bf16`?"),
        (["merge", "x", "y", "--out", "z", "--method", "slurp"], "--method is linear, task_arithmetic, slerp or ties, not `slurp`; did you mean `slerp`?"),
        (["compare", "x", "--by", "tokns"], "--by is step, tokens or time, not `tokns`; did you mean `tokens`?"),
        (["tune", "x", "--method", "grod"], "did you mean `grid`?"),
        (["doctor", "--quik"], "did you mean --quick?"),
        (["eval", "x", "y", "--precison", "fp32"], "did you mean --precision?"),
    ):
        done = subprocess.run([TRIREME, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 2 and said in done.stderr, (words, done.stderr)


def test_advice_is_legal(tmp_path):
    """What a message says to try is tried: it must not be refused for the same reason."""
    run = dict(model=MODEL, data=dict(train="none", sequence=16), layout=dict(micro_batch=3, data=1),
               optimizer=dict(global_batch=1 << 24, steps=4, lr=1e-3), output=str(tmp_path / "run"))
    (tmp_path / "run.yaml").write_text(yaml_of(run))
    done = trireme("train", tmp_path / "run.yaml", status=3)
    tried = re.search(r"is not a multiple .*; try (\d+)", done.stderr)
    assert int(tried[1]) <= 1 << 24 and int(tried[1]) % 3 == 0
    again = subprocess.run([TRIREME, "train", tmp_path / "run.yaml", "--set", f"optimizer.global_batch={tried[1]}"], capture_output=True, text=True)
    assert "global_batch" not in again.stderr.split("try")[0], again.stderr
    # The most that a rank may be is the most for all matrices, not for the first that is too small.
    words = ["--set", "adapter.rank=200", "--set", "model.family=llama", "--set", "model.ffn_size=16", "--set", "optimizer.global_batch=3"]
    most = re.search(r"adapter.rank` 200 is above .*use at most (\d+)", trireme("train", tmp_path / "run.yaml", *words, status=3).stderr)[1]
    words[1] = f"adapter.rank={most}"
    assert "adapter.rank" not in subprocess.run([TRIREME, "train", tmp_path / "run.yaml", *words], capture_output=True, text=True).stderr
    # A last node that is not whole: the number above would be more than the cluster has.
    text = trireme_cluster().replace("max_devices: 8", "max_devices: 15")
    (tmp_path / "odd.yaml").write_text(text)
    words = ["plan", "--model", "gpt2-124m", "--cluster", tmp_path / "odd.yaml", "--global-batch", "16", "--devices"]
    assert trireme(*words, 12, status=2).stderr.strip().endswith("(8 devices each); try 8")
    assert trireme(*words, 8).returncode == 0


def trireme_cluster():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../configs/clusters/a100-node.yaml"), encoding="utf-8") as f:
        return f.read()
