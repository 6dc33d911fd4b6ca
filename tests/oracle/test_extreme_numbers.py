"""Extreme whole numbers at every integer key of every kind of file, and at every integer option of the commands that plan:
each is either taken, with a legal result, or refused with one message and the exit status of its kind. Never a signal, never
a report of a sanitizer. One key at a time, then several drawn at random, also from the ends of what each key allows: sums and
products overflow where each number alone is legal.

TRIREME_EXTREMES=N draws N more for each target (20 in the suite); a sanitized build can be asked:
    cmake --preset asan && cmake --build --preset asan
    BUILD=build/asan TRIREME_EXTREMES=500 scripts/test.sh oracle/test_extreme_numbers"""
import copy
import json
import os
import pathlib
import random
import re
import resource
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

TRIREME = os.environ["TRIREME"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
DRAWS = int(os.environ.get("TRIREME_EXTREMES", "20"))
EXTREMES = [0, -1, 1, 2**31 - 1, 2**31, 2**62, 2**63 - 1, -2**63, 2**63, 2**64]
REFUSED = {2, 3, 4, 6, 7}  # usage, keys and layouts, files, memory, unsupported
SANITIZED = "/asan/" in TRIREME
ROOM_BYTES = 8 << 30  # memory that a large valid model may use before it is refused

MODEL = dict(family="llama", num_layers=2, hidden_size=16, num_heads=2, num_kv_heads=2, head_dim=8, ffn_size=32, vocab_size=257,
             max_sequence=32, window=8, rope_scaling=dict(factor=2.0, original_max_sequence=16))
EXPERTS = dict(family="dots1", num_layers=3, hidden_size=16, num_heads=2, num_kv_heads=2, head_dim=8, ffn_size=32, vocab_size=257, max_sequence=32,
               num_experts=8, experts_per_token=2, expert_ffn_size=16, shared_experts=1, dense_layers=1, router_groups=4, router_kept_groups=2)
LAYOUT = dict(tensor=1, pipeline=1, context=1, context_inner=1, context_row_pairs=100, data=1, expert=1, expert_tensor=1, expert_capacity=1.5,
              virtual_stages=1, zero=0,
              recompute_every=1, bucket_bytes=1 << 20, micro_batch=2, balance="layers", embedding_as_layers=0, head_as_layers=1)
CHUNKS = dict(pipeline=2, virtual_stages=2, schedule="interleaved", micro_batch=1, micro_batch_group=3)  # without a use for it else
CLUSTER = dict(hypothetical=True, node_devices=2, max_devices=8, threads=1, cores=2, nodes=1, peak_bf16=1e14, vector_flops=1e13, memory_bytes=64e9, memory_bandwidth=1e12,
               links=[dict(name="near", spans=2, per=1, ports=1, stripe=1, bandwidth=1e10, latency=1e-6),
                      dict(name="far", spans=8, per=2, ports=2, stripe=1, bandwidth=1e10, latency=1e-6)],
               efficiency=dict(matmul=0.5, matmul_half=10.0, attention=0.5, memory=0.5, link=0.5, launch=1e-6))
STUDY = dict(name="small", model="MODEL", cluster="CLUSTER", devices=2, global_batch=8, sequence=16, trials=2, initial=1, parallel=1, seed=1,
             trial=dict(warmup=1, steps=1), population=dict(members=2, rounds=1, steps=1),
             known=[dict(name="known", layout="tensor=1", devices=2, global_batch=8)], adapter=dict(rank=0),
           average=dict(every=0, after=0, decay=0.999),
             optimizer=dict(name="muon", muon=dict(iterations=5), galore=dict(rank=4, every=5), fira=dict(rank=4, every=5)),
             space=[dict(name="tensor", values="1 2"), dict(name="micro_batch", values="1 2"), dict(name="accumulation", values="1 2"),
                    dict(name="nodes", values="1 2"), dict(name="virtual_stages", low=1, high=2, step=1)])
RUN = dict(model=MODEL, data=dict(train="CORPUS", sequence=16, ignore_token=-1, max_samples=0), layout=LAYOUT,
           optimizer=dict(global_batch=8, steps=4, lr=1e-3, warmup=1, max_bad_steps=2, name="muon", muon=dict(iterations=5), galore=dict(rank=4, every=5),
                          fira=dict(rank=4, every=5)),
           threads=1, seed=1, device="reference", device_memory=1 << 33,
           evaluation=dict(every=2, sequences=1, stop_after=0), samples=dict(tokens=8, top_k=0, seed=1), max_restarts=0, output="OUTPUT", adapter=dict(rank=0),
           average=dict(every=0, after=0, decay=0.999),
           checkpoint=dict(every=2, keep=3, snapshot_every=0, shard_bytes=1 << 20))
REWARDS = [dict(name="repetition", ngram=2, max_penalty=-1.0), dict(name="length", max=4, buffer=2), dict(name="command", command="sed -u 's/,.prompt.*/,\"reward\":1}/'", batch=1, workers=1)]
ROLLOUTS = dict(model=dict(MODEL, window=0), data=dict(prompts="PROMPTS", tokenizer="TOKENIZER", sequence=16), optimizer=dict(steps=4, lr=1e-3), layout=dict(micro_batch=1),
                objective=dict(name="grpo", mini_batches=1, num_iterations=1), reward=REWARDS, threads=1, seed=1, output="OUTPUT", samples=dict(tensor=1),
                rollout=dict(prompts=2, num_generations=2, max_completion_length=4, slots=4, cache=1 << 20, max_filtered=4, log=1, tensor=1, validation_top_k=0))
OPTIONS = {"--devices": 2, "--global-batch": 8, "--sequence": 16, "--top": 2}


def numbers_in(value, path=()):
    """The places of all whole numbers, words of a space's `values` among them."""
    if isinstance(value, dict):
        return [p for key, v in value.items() for p in numbers_in(v, path + (key,))]
    if isinstance(value, list):
        return [p for i, v in enumerate(value) for p in numbers_in(v, path + (i,))]
    if path and path[-1] == "values":
        return [path]
    return [path] if isinstance(value, int) and not isinstance(value, bool) else []


def changed(value, changes):
    value = copy.deepcopy(value)
    for path, number in changes.items():
        at = value
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = f"1 {number}" if path[-1] == "values" else number
    return value


class Target:
    """A command and a document whose numbers change."""

    def __init__(self, name, document, command):
        self.name, self.document, self.command = name, document, command
        self.ends = {path: list(EXTREMES) for path in numbers_in(document)}

    def run(self, folder, number, changes):
        here = folder / f"{self.name}-{number}"
        here.mkdir()
        command = self.command(here, changed(self.document, changes))
        environment = dict(os.environ, ASAN_OPTIONS="allocator_may_return_null=1:detect_leaks=0", UBSAN_OPTIONS="halt_on_error=1",
                           OMP_NUM_THREADS="1", TRIREME_CONFIGS=str(ROOT / "configs"))

        def room():
            if not SANITIZED:  # shadow memory takes terabytes of addresses
                resource.setrlimit(resource.RLIMIT_AS, (ROOM_BYTES, ROOM_BYTES))
        return subprocess.run([TRIREME, *map(str, command)], capture_output=True, text=True, timeout=900, env=environment, preexec_fn=room)

    def learn(self, path, said):
        """The ends of what a key allows, from its refusal."""
        for low, high in re.findall(r"(?:between|from) (-?\d+) (?:and|to) (\d+)", said):
            if path[-1] == "num_layers":  # of 16,384 layers the buckets' order alone takes half a minute
                high = min(int(high), 2048)
            self.ends[path] += [int(low), int(high), int(high) - 1]


def write(path, value):
    path.write_text(json.dumps(value))  # JSON is YAML
    return path


def simulate(here, options, model=None, cluster=None, layout=None, command="simulate"):
    words = ["--model", write(here / "model.yaml", model or MODEL), "--cluster", write(here / "cluster.yaml", cluster or CLUSTER)]
    for name, value in options.items():
        words += [name, value] if command == "plan" or name != "--top" else []
    if command == "simulate":
        words += ["--layout", ",".join(f"{k}={v}" for k, v in (layout or LAYOUT).items())]
    return [command, *words]


def train(corpus):
    def command(here, run):
        run = dict(run, data=dict(run["data"], train=str(corpus)), output=str(here / "run"))
        return ["train", write(here / "run.yaml", run), "--dry-run"]
    return command


def reinforce(corpus):
    """A dry run of reinforcement learning, which also tries the rewards."""
    def command(here, run):
        (here / "prompts.jsonl").write_text('{"prompt": "ab", "answer": "c"}\n{"prompt": "cd", "answer": "e"}\n')
        run = dict(run, data=dict(run["data"], prompts=str(here / "prompts.jsonl"), tokenizer=str(corpus.parent / "tokenizer.json")), output=str(here / "run"))
        return ["train", write(here / "run.yaml", run), "--dry-run"]
    return command


def tune(here, study):
    study = dict(study, model=str(write(here / "model.yaml", MODEL)), cluster=str(write(here / "cluster.yaml", CLUSTER)))
    return ["tune", write(here / "study.yaml", study)]


def published(here, rows):
    row = dict(rows, name="row", layers=2, hidden=16, heads=2, vocab=64, step_s=1.0) | {k: v for k, v in rows.items()}
    sets = dict(sets=[dict(name="set", cluster=str(write(here / "cluster.yaml", CLUSTER)), system="trireme", rows=[row])])
    return ["validate", write(here / "published.yaml", sets)]


ROW = dict(layers=2, hidden=16, heads=2, vocab=64, sequence=16, devices=2, tensor=1, pipeline=1, virtual_stages=1, micro_batch=1, zero=0,
           global_batch=8)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.txt").write_text("pull the oars in time\n" * 500)
    subprocess.run([TRIREME, "prepare", "--tokenizer", "bytes", "--out", folder / "corpus", folder / "text.txt"], check=True, capture_output=True)
    return folder / "corpus/train"


def targets(corpus):
    options = dict(OPTIONS)
    return {
        "model": Target("model", MODEL, lambda here, m: simulate(here, OPTIONS, model=m)),
        "experts": Target("experts", dict(model=EXPERTS, layout=dict(data=2, expert=2, expert_tensor=1, micro_batch=2)),
                          lambda here, d: simulate(here, OPTIONS, model=d["model"], layout=d["layout"])),
        "cluster": Target("cluster", CLUSTER, lambda here, c: simulate(here, OPTIONS, cluster=c)),
        "layout": Target("layout", LAYOUT, lambda here, l: simulate(here, OPTIONS, layout=l)),
        "chunks": Target("chunks", CHUNKS, lambda here, l: simulate(here, OPTIONS, layout=l)),
        "options": Target("options", options, lambda here, o: simulate(here, o)),
        "plan": Target("plan", dict(options=options, model=MODEL, cluster=CLUSTER),
                       lambda here, d: simulate(here, d["options"], d["model"], d["cluster"], command="plan")),
        "study": Target("study", STUDY, tune),
        "trials": Target("trials", {"--trials": 2, "--seed": 1}, lambda here, o: tune(here, STUDY) + [w for p in o.items() for w in p]),
        "published": Target("published", ROW, published),
        "run": Target("run", RUN, train(corpus)),
        "rollouts": Target("rollouts", ROLLOUTS, reinforce(corpus)),
    }


NAMES = ["model", "experts", "cluster", "layout", "chunks", "options", "plan", "study", "trials", "published", "run", "rollouts"]


def judge(changes, done):
    """Returns the fault of an outcome, or None."""
    said = [line for line in done.stderr.splitlines() if line.startswith("trireme: ")]
    if "Sanitizer" in done.stderr or "runtime error" in done.stderr:
        return f"{changes}: {done.stderr[-1500:]}"
    if done.returncode == 0:
        return f"{changes}: nan in {done.stdout[-600:]}" if re.search(r"\b-?(nan|inf)\b", done.stdout) else None
    if done.returncode not in REFUSED:
        return f"{changes}: status {done.returncode}: {done.stderr[-600:]}"
    if len(said) < 1:
        return f"{changes}: refused without a word: {done.stderr[-600:]}"
    return None


@pytest.mark.parametrize("name", NAMES)
def test_extreme_numbers(tmp_path, corpus, name):
    target = targets(corpus)[name]
    paths = list(target.ends)
    assert len(paths) >= 2
    singles = [{path: number} for path in paths for number in EXTREMES]
    if name == "plan":  # its files are simulate's, which have their own turns
        singles = [c for c in singles if next(iter(c))[0] == "options"]
    wrong = []
    with ThreadPoolExecutor(2) as pool:
        for i, (changes, done) in enumerate(zip(singles, pool.map(lambda j: target.run(tmp_path, j, singles[j]), range(len(singles))))):
            wrong.append(judge(changes, done))
            target.learn(next(iter(changes)), done.stderr)
        for path in paths:
            target.ends[path] = sorted(set(target.ends[path]))
        draw = random.Random(12)
        several = [{path: draw.choice(legal(target.ends[path])) for path in draw.sample(paths, min(len(paths), draw.randint(2, 5)))}
                   for _ in range(DRAWS)]
        results = pool.map(lambda j: target.run(tmp_path, len(singles) + j, several[j]), range(len(several)))
        wrong += [judge(changes, done) for changes, done in zip(several, results)]
    wrong = [w for w in wrong if w]
    assert not wrong, f"{len(wrong)} of {len(singles) + len(several)}:\n" + "\n".join(wrong[:10])


def legal(numbers):
    """Mostly what the key alone would let through: the rest is refused before anything is multiplied."""
    positive = [n for n in numbers if 0 < n]
    learned = [n for n in positive if n not in EXTREMES]
    return learned * 3 + positive if learned else positive


def test_every_integer_key_is_thrown_at(corpus):
    """A new integer key of a run file (with its model and layout) belongs into the documents above."""
    keys = subprocess.run([TRIREME, "train", "--keys"], capture_output=True, text=True, check=True).stdout
    known = {"evaluation.batches"}  # refused beside `sequences`
    documents = [*(dict(RUN, model=model, layout=dict(LAYOUT, **CHUNKS)) for model in (MODEL, EXPERTS)), ROLLOUTS]
    known |= {".".join(key for key in path if isinstance(key, str)) for document in documents for path in numbers_in(document)}
    assert {line.split()[0] for line in keys.splitlines() if len(line.split()) > 1 and line.split()[1] in ("integer", "integer|auto")} <= known


def test_bytes_that_wrap(tmp_path):
    """Activations of 2^16 x 2^30 rows of 2^20 numbers would be 2^67 bytes: as an unsigned product, nothing at all."""
    model = dict(family="gpt2", num_layers=1, hidden_size=2**20, num_heads=2**10, vocab_size=257, max_sequence=2**30)
    command = simulate(tmp_path, {"--devices": 1, "--global-batch": 2**16, "--sequence": 2**30}, model=model, layout=dict(micro_batch=2**16))
    done = subprocess.run([TRIREME, *map(str, command)], capture_output=True, text=True)
    assert done.returncode == 3 and "are more than the 2147483647 tokens that a micro-batch may have; set layout.micro_batch to 1" in done.stderr
