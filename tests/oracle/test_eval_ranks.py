"""`eval --tensor T` of corpora and preferences: T ranks hold one copy of the weights. By rounding the numbers are those of one rank, and any
number of such replicas prints the same bytes."""
import json
import math
import random
import re
import resource
import shutil
import subprocess

import pytest
from parity import TRIREME, device_for, trireme, yaml_of
from test_generate_ranks import WORDS, by_hand, pytestmark, run  # noqa: F401 (pytestmark)

SHAPE = dict(num_layers=2, hidden_size=32, num_heads=4, vocab_size=257, max_sequence=32)
EXPERTS = dict(SHAPE, family="mixtral", num_kv_heads=2, num_experts=4, experts_per_token=2)
MODELS = {
    "gpt2": dict(SHAPE, family="gpt2"),
    "llama": dict(SHAPE, family="llama", num_kv_heads=1, ffn_size=45),
    "experts": dict(EXPERTS, expert_ffn_size=24),
    "unsplit": dict(EXPERTS, expert_ffn_size=25),  # each rank has all of its experts
    "three-heads": dict(SHAPE, family="gpt2", num_heads=3, hidden_size=36),
}
EXACT = ("--precision", "fp64", "--device", device_for("reference", "fp64"), "--json")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of each model, a corpus of 81 windows, pairs of answers and answers with labels."""
    folder = tmp_path_factory.mktemp("made")
    draw = random.Random(5)
    sentences = [" ".join(draw.choice(WORDS) for _ in range(draw.randint(1, 9)))[:20] for _ in range(120)]
    (folder / "text.txt").write_text("\n".join(sentences))
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "corpus", folder / "text.txt")
    for name, model in MODELS.items():
        run_file = dict(model=model, data=dict(train=str(folder / "corpus/train"), sequence=32), layout=dict(micro_batch=4), output=str(folder / name),
                        optimizer=dict(global_batch=4, steps=6, lr=1e-2))
        (folder / f"{name}.yaml").write_text(yaml_of(run_file))
        trireme("train", folder / f"{name}.yaml")
    pairs = [dict(prompt=text[:9], chosen="the sea"[:3 + i % 4], rejected="oars "[:1 + i % 4]) for i, text in enumerate(sentences[:21])]
    labelled = [dict(prompt=pair["prompt"], completion=pair["chosen"], label=i % 3 > 0) for i, pair in enumerate(pairs)]
    trireme("export", folder / "gpt2", folder / "model")
    for name, records in (("pairs", pairs), ("labelled", labelled)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        trireme("prepare", "--preferences", "--tokenizer", folder / "model", "--chat-template", "none", "--out", folder / name, folder / f"{name}.jsonl")
    return folder


def check_near(alone, several, tolerance):
    """The numbers of two reports in JSON."""
    assert alone.keys() == several.keys()
    for key, value in alone.items():
        if isinstance(value, list):
            for one, other in zip(value, several[key], strict=True):
                check_near(one, other, tolerance)
        elif isinstance(value, float):
            assert math.isclose(value, several[key], rel_tol=tolerance, abs_tol=tolerance), (key, value, several[key])
        else:
            assert value == several[key], key


def check_shared(*words, ranks=(4,), tolerance=1e-12):
    """Two tensor ranks beside one rank, and beside several replicas of two tensor ranks."""
    alone, pair = run("eval", *words), run("eval", *words, "--tensor", 2)
    check_near(json.loads(alone.stdout), json.loads(pair.stdout), tolerance)
    for count in ranks:
        assert run("eval", *words, "--tensor", 2, "-n", count).stdout == pair.stdout, (words, count)
    return alone, pair


@pytest.mark.parametrize("name", ["gpt2", "llama", "experts", "unsplit"])
def test_corpora(made, name):
    """With one rank, --tensor 1 changes nothing."""
    words = (made / name, made / "corpus/train", *EXACT)
    alone, pair = check_shared(*words, ranks=(2, 4))
    for count in (1, 2, 3, 4):
        assert run("eval", *words, "--tensor", 1, "-n", count).stdout == alone.stdout, count
    assert run("eval", *words, "--tensor", 2, launcher=by_hand(4)).stdout == pair.stdout


@pytest.mark.parametrize("name", ["llama", "experts"])
def test_four_ranks_and_other_precisions(made, name):
    """More ranks than key/value heads; documents side by side; sequences whose rows no number of ranks divides."""
    shape = ("--documents", "masked", "--packing", "documents", "--sequence", 31, "--batch", 1)
    check_shared(made / name, made / "corpus/train", *EXACT, *shape)
    alone, four = (json.loads(run("eval", made / name, made / "corpus/train", *EXACT, "--tensor", count).stdout) for count in (1, 4))
    check_near(alone, four, 1e-12)
    check_shared(made / name, made / "corpus/train", "--json", *shape, tolerance=1e-5)
    check_shared(made / name, made / "corpus/train", "--json", "--precision", "bf16", "--device", device_for("cpu", "bf16"), tolerance=3e-2)


def test_preferences(made):
    """Pairs, and answers with labels, whose mismatched answers are scored, too; with a reference of another shape and without one."""
    check_shared(made / "llama", made / "pairs/train", "--reference", made / "gpt2", *EXACT)
    check_shared(made / "experts", made / "labelled/train", "--reference", made / "unsplit", *EXACT)
    check_shared(made / "gpt2", made / "pairs/train", *EXACT)


def test_ensembles(made):
    """Of models of other shapes, each shared by the same ranks."""
    check_shared(*(made / name for name in ("unsplit", "gpt2", "experts")), made / "corpus/train", *EXACT)
    text = run("eval", made / "llama", made / "gpt2", made / "corpus/train", "--tensor", 2)
    assert text.stdout.count(b"loss") == 3


def test_generation_with_unsplit_experts(made):
    words = ("generate", made / "unsplit", "--prompt", "the", "--tokens", 9, "--temperature", 0)
    assert run(*words, "--tensor", 2).stdout == run(*words).stdout


def test_more_ranks_than_windows(made):
    words = (made / "gpt2", made / "corpus/train", "--batch", 60, "--tensor", 2)
    done = run("eval", *words, "-n", 6)
    assert done.stdout == run("eval", *words).stdout
    assert done.stderr.count(b"2 batches of 60 sequences for 3 replicas of the model: some have nothing to do; a smaller --batch") == 1, done.stderr
    few = run("eval", made / "gpt2", made / "pairs/train", "--batch", 99, "-n", 2)
    assert b"1 batch of 99 sequences for 2 replicas" in few.stderr


def test_refusals(made, tmp_path):
    """Each is printed once, whatever starts the ranks."""
    damaged = shutil.copytree(next((made / "unsplit/checkpoints").glob("step-*")), tmp_path / "copy")
    weights = bytearray((damaged / "model.safetensors").read_bytes())
    weights[-9] ^= 64
    (damaged / "model.safetensors").write_bytes(weights)
    corpus = made / "corpus/train"
    for words, launcher, status, message in (
        ((made / "three-heads", corpus, "--tensor", 2), (), 3, "--tensor 2 does not divide the model's 3 heads; 1 or 3 would"),
        ((made / "llama", made / "three-heads", corpus, "--tensor", 2), (), 3, "--tensor 2 does not divide the model's 3 heads; 1 or 3 would"),
        ((made / "llama", corpus, "--tensor", 2, "-n", 3), (), 2, "-n 3 is not a multiple of --tensor 2: a replica has 2 ranks"),
        ((made / "llama", corpus, "--tensor", 2, "-n", 1), (), 3, "--tensor 2 does not divide the 1 rank of this job; give -n a multiple of 2"),
        ((made / "llama", corpus, "--tensor", 2), by_hand(3), 3, "--tensor 2 does not divide the 3 ranks of this job; give -n a multiple of 2"),
        ((made / "llama", made / "pairs/train", "--tensor", 3), (), 3, "--tensor 3 does not divide the model's 4 heads; 2 or 4 would"),
        ((damaged, corpus, "--tensor", 2), (), 4, "is damaged: its checksum is"),
        ((made / "llama", corpus, "--choices", made / "pairs.jsonl", "--tensor", 0), (), 2, "--tensor must be from 1"),
    ):
        said = run("eval", *words, launcher=launcher, status=status).stderr.decode()
        assert message in said and said.count("trireme: ") == 1, (words, said)


@pytest.mark.parametrize("what, command, folders", [("model", "generate", ("gpt2", "experts")), ("model", "eval", ("gpt2", "experts")),
                                                    ("corpus", "eval", ("corpus", "labelled"))])
def test_other_folders(made, tmp_path, what, command, folders):
    """Two ranks of a replica see different models, one with experts, or different corpora: found before they divide a model."""
    for rank, name in enumerate(folders):
        (tmp_path / f"rank{rank}").mkdir()
        (tmp_path / f"rank{rank}/here").symlink_to(made / name)
    script = f'cd "{tmp_path}/rank${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}" && exec "$@"'
    words = ("here", "--prompt", "the") if command == "generate" else ("here", made / "corpus/train") if what == "model" else (made / "gpt2", "here/train")
    done = subprocess.run([*by_hand(2), "sh", "-c", script, "-", TRIREME, command, *map(str, words), "--tensor", "2"], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and not done.stdout.strip()
    assert re.search(f"rank 1 (has|was started with) another {what} than rank 0", done.stderr) and done.stderr.count("trireme: ") == 1


def test_too_large(made):
    done = run("eval", made / "llama", made / "corpus/train", "--batch", 1 << 20, status=6,
               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30)))
    assert b"T ranks that share the model (--tensor T), or a smaller --batch or --sequence need less" in done.stderr
