"""Compares the texts that a run samples from its checkpoints with those of `trireme generate`. test_generate.py compares greedy texts with transformers."""
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import time

import pytest
from parity import DEVICE, TRIREME, trireme, yaml_of

MODEL = dict(family="llama", num_layers=2, hidden_size=32, num_heads=4, num_kv_heads=2, ffn_size=48, vocab_size=257, max_sequence=64)
PROMPTS = ["Once upon", "", 'a "ship" & </script>\\n', "a rather long one, of which the text goes beyond the sixty-four positions"[:60]]
STEPS, EVERY = 12, 4


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    draw = random.Random(5)
    words = ["".join(draw.choice("abcdefgh") for _ in range(draw.randint(2, 6))) for _ in range(30)]
    (folder / "text.txt").write_text("\n".join(" ".join(draw.choice(words) for _ in range(40)) for _ in range(60)) + "\n")
    trireme("prepare", "--tokenizer", "bytes", "--validation", 0, "--out", folder, folder / "text.txt")
    return folder


def write_run(folder, corpus, samples=None, **changes):
    run = dict(model=MODEL, data=dict(train=str(corpus / "train"), sequence=32), layout=dict(micro_batch=1), threads=1,
               optimizer=dict(global_batch=4, steps=STEPS, lr=1e-2), checkpoint=dict(every=EVERY, keep=0), seed=3, output=str(folder / "run"))
    if samples is not None:
        run["samples"] = {"prompts": PROMPTS, "tokens": 20, "temperature": 0, **samples}
    run.update(changes)
    folder.mkdir(exist_ok=True)
    path = folder / "run.yaml"
    path.write_text(yaml_of(run))
    return path


def samples_of(folder):
    return (folder / "run/samples.jsonl").read_text()


def losses_of(folder):
    return [(line["step"], line["loss"], line["grad_norm"]) for line in map(json.loads, open(folder / "run/metrics.jsonl"))]


def generated(folder, *options, steps=(4, 8, 12), prompts=PROMPTS):
    """What generate writes of the run's checkpoints."""
    path = folder / "prompts.jsonl"
    path.write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts))
    return "".join(trireme("generate", folder / f"run/checkpoints/step-{step:08d}", "--prompts", path, "--json", *options).stdout for step in steps)


@pytest.fixture(scope="module")
def usual(tmp_path_factory, corpus):
    """A run with samples, in fp64."""
    folder = tmp_path_factory.mktemp("usual")
    trireme("train", write_run(folder, corpus, {}, precision="fp64", device="reference"))
    return folder


def test_as_generate_writes_them(tmp_path, corpus, usual):
    assert samples_of(usual) == generated(usual, "--tokens", 20, "--temperature", 0, "--precision", "fp64", "--device", DEVICE or "reference")
    lines = [json.loads(line) for line in samples_of(usual).splitlines()]
    assert [(line["step"], line["prompt"]) for line in lines] == [(step, prompt) for step in (4, 8, 12) for prompt in PROMPTS]
    assert len({line["text"] for line in lines}) > 3


@pytest.mark.parametrize("background", [False, True])
def test_drawn_ones_and_more_than_a_batch(tmp_path, corpus, background):
    """And the run's losses are to the bit those of a run without samples."""
    prompts = [f"text {n}" for n in range(11)]
    asked = dict(prompts=prompts, tokens=15, temperature=0.7, top_k=20, top_p=0.9, seed=77)
    checkpoint = dict(every=EVERY, keep=0, **{"async": background})
    trireme("train", write_run(tmp_path / "with", corpus, asked, checkpoint=checkpoint))
    trireme("train", write_run(tmp_path / "without", corpus, checkpoint=checkpoint))
    assert losses_of(tmp_path / "with") == losses_of(tmp_path / "without")
    assert not (tmp_path / "without/run/samples.jsonl").exists()
    options = ["--tokens", 15, "--temperature", 0.7, "--top-k", 20, "--top-p", 0.9, "--seed", 77, "--threads", 1]
    assert samples_of(tmp_path / "with") == generated(tmp_path / "with", *options, prompts=prompts)


@pytest.mark.parametrize("layout", [dict(tensor=2), dict(pipeline=2), dict(context=2), dict(data=2, zero=3)], ids=str)
def test_layouts(tmp_path, corpus, usual, layout):
    trireme("train", write_run(tmp_path, corpus, {}, precision="fp64", device="reference", layout=dict(micro_batch=1, **layout)), "-n", 2)
    assert samples_of(tmp_path) == samples_of(usual)


ASYNC = {"every": EVERY, "keep": 0, "async": True}
GENERATED = ["--tokens", 20, "--temperature", 0, "--threads", 1]
EXPERTS = dict({k: v for k, v in MODEL.items() if k != "ffn_size"}, family="mixtral", num_experts=4, experts_per_token=2, expert_ffn_size=24)
GPT2 = dict(family="gpt2", num_layers=2, hidden_size=32, num_heads=4, vocab_size=257, max_sequence=64)
NEOX = dict(family="gpt_neox", num_layers=2, hidden_size=32, num_heads=4, ffn_size=64, vocab_size=257, max_sequence=64, rotary_fraction=0.25)
PHI3 = dict(MODEL, family="phi3")


@pytest.mark.parametrize("ranks, layout, changes", [
    (1, {}, {}),
    (1, {}, dict(precision="bf16")),
    (1, {}, dict(precision="bf16", checkpoint=ASYNC)),
    (1, {}, dict(model=GPT2, precision="bf16")),
    (1, {}, dict(model=EXPERTS)),
    (1, {}, dict(optimizer=dict(name="schedule_free", global_batch=4, steps=STEPS, lr=1e-2))),
    (1, {}, dict(average=dict(every=2))),
    (2, dict(tensor=2, sequence_parallel=True), dict(model=GPT2, precision="bf16")),
    (2, dict(tensor=2), dict(model=NEOX)),
    (2, dict(tensor=2), dict(model=NEOX, checkpoint=ASYNC)),
    (2, dict(tensor=2), dict(model=PHI3)),
    (2, dict(tensor=2), dict(model=EXPERTS)),
    (2, dict(expert=2, data=2), dict(model=EXPERTS, precision="bf16")),
    (2, dict(pipeline=2, virtual_stages=1), dict(model=dict(GPT2, tied=True))),
    (2, dict(data=2, zero=1), dict(precision="bf16")),
    (2, dict(data=2, zero=3), dict(model=PHI3, precision="bf16")),
    (2, dict(data=2, zero=3), dict(optimizer=dict(name="muon", global_batch=4, steps=STEPS, lr=1e-2))),
    (2, dict(data=2, zero=2), dict(optimizer=dict(name="schedule_free", global_batch=4, steps=STEPS, lr=1e-2))),
    (2, dict(data=2, zero=3), dict(optimizer=dict(name="schedule_free", global_batch=4, steps=STEPS, lr=1e-2), checkpoint=ASYNC)),
    (4, dict(tensor=2, data=2, zero=3), dict(model=NEOX, precision="bf16")),
    (4, dict(tensor=2, pipeline=2), dict(model=GPT2)),
    (4, dict(pipeline=2, expert=2, data=2, zero=1), dict(model=EXPERTS)),
    (3, dict(data=3, zero=3), dict(model=dict(MODEL, tied=True), optimizer=dict(global_batch=3, steps=STEPS, lr=1e-2)))], ids=str)
def test_weights_in_memory_are_those_of_the_checkpoint(tmp_path, corpus, ranks, layout, changes):
    """Read in place, or moved from the ranks that have them, in the types in which they generate."""
    trireme("train", write_run(tmp_path, corpus, {}, layout=dict(micro_batch=1, **layout), **changes), "-n", ranks)
    precision = ["--precision", "bf16"] if changes.get("precision") == "bf16" else []
    assert samples_of(tmp_path) == generated(tmp_path, *GENERATED, *precision)


@pytest.mark.parametrize("ranks, layout, tensor, changes", [
    (2, dict(tensor=2), 2, dict(model=NEOX, precision="bf16")),
    (2, dict(pipeline=2), 2, dict(model=PHI3)),
    (2, dict(data=2, zero=3), 2, dict(model=dict(GPT2, tied=True), checkpoint=ASYNC)),
    (2, dict(expert=2, data=2), 2, dict(model=EXPERTS)),
    (2, dict(data=2, zero=2), 2, dict(optimizer=dict(name="schedule_free", global_batch=4, steps=STEPS, lr=1e-2))),
    (4, dict(expert_tensor=2, tensor=2, pipeline=2), 4, dict(model=EXPERTS, precision="bf16")),
    (4, dict(context=2, data=2, zero=1), 2, dict(model=GPT2))], ids=str)
def test_tensor_ranks_that_generate(tmp_path, corpus, ranks, layout, tensor, changes):
    """The first ranks receive slices of the weights, whatever the layout, and write the texts of `generate --tensor`."""
    path = write_run(tmp_path, corpus, dict(tensor=tensor), layout=dict(micro_batch=1, **layout), **changes)
    trireme("train", path, "-n", ranks)
    precision = ["--precision", "bf16"] if changes.get("precision") == "bf16" else []
    whole = generated(tmp_path, *GENERATED, "--tensor", tensor, *precision)
    assert samples_of(tmp_path) == whole
    lines = whole.splitlines(keepends=True)
    (tmp_path / "run/samples.jsonl").write_text("".join(lines[: len(PROMPTS) + 1]))
    trireme("train", path, "-n", ranks)
    assert samples_of(tmp_path) == whole


def test_taken_up(tmp_path, corpus, usual):
    """A run that was killed between a checkpoint and its samples, or while it wrote them, or after later ones, adds what lacks."""
    whole = samples_of(usual)
    lines = whole.splitlines(keepends=True)
    count = len(PROMPTS)
    shutil.copytree(usual / "run", tmp_path / "run")
    path, file = write_run(tmp_path, corpus, {}, precision="fp64", device="reference"), tmp_path / "run/samples.jsonl"
    for left in ("".join(lines[:-count]), "".join(lines[:-1]), whole[:-30]):
        file.write_text(left)
        trireme("train", path)
        assert file.read_text() == whole
    file.write_text("".join(lines[:count]))  # a run that was stopped while the second was saved in the background
    trireme("train", path)
    assert file.read_text() == whole
    file.unlink()
    trireme("train", path)
    assert file.read_text() == "".join(lines[-count:])
    # Back to an older step: later samples are written again. Lines of other programs are kept, and no step occurs twice.
    other = json.dumps(dict(step=4, number=0, prompt="another's", text="")) + "\n"
    file.write_text("".join(lines[:count]) + other + "".join(lines[count:]))
    trireme("train", path, "--resume", tmp_path / "run/checkpoints/step-00000004")
    assert file.read_text() == "".join(lines[:count]) + other + "".join(lines[count:])
    # Started over: the old ones are with the old checkpoints.
    trireme("train", path, "--resume", "never")
    assert file.read_text() == whole and other in (tmp_path / "run/checkpoints.old-2/samples.jsonl").read_text()


@pytest.mark.parametrize("ranks, background", [(1, True), (2, False)])
def test_killed_anywhere(tmp_path, corpus, ranks, background):
    chance = random.Random(ranks)
    more = dict(layout=dict(micro_batch=1, data=ranks), precision="fp64", device="reference", checkpoint=dict(every=2, keep=0, **{"async": background}))
    trireme("train", write_run(tmp_path / "whole", corpus, {}, **more), "-n", ranks)
    path, killed, longest_s = write_run(tmp_path / "killed", corpus, {}, **more), 0, 1.0
    words = [TRIREME, "train", path, "-n", str(ranks)]
    for _ in range(30):
        process = subprocess.Popen(words, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            process.wait(timeout=chance.uniform(0.1, longest_s))
            if killed > 1:
                break
            shutil.rmtree(tmp_path / "killed/run")
            killed, longest_s = 0, 0.8 * longest_s
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            killed, longest_s = killed + 1, 1.1 * longest_s
    trireme("train", path, "-n", ranks)
    assert killed > 1 and samples_of(tmp_path / "killed") == samples_of(tmp_path / "whole")


def test_asked_to_stop(tmp_path, corpus):
    """The run stops at once; the samples of the checkpoint that it leaves come when it goes on."""
    path = write_run(tmp_path, corpus, dict(tokens=4), optimizer=dict(global_batch=4, steps=4000, lr=1e-3), checkpoint=dict(every=1000, keep=0))
    process = subprocess.Popen([TRIREME, "train", path], stderr=subprocess.PIPE, text=True)
    metrics = tmp_path / "run/metrics.jsonl"
    while not metrics.exists() or metrics.read_text().count("\n") < 3:
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    said = process.communicate()[1]
    step = int(re.search(r"interrupted after step (\d+)", said).group(1))
    assert step < 1000 and not (tmp_path / "run/samples.jsonl").exists()
    trireme("train", path, "--set", f"optimizer.steps={step}")
    assert [json.loads(line)["step"] for line in samples_of(tmp_path).splitlines()] == [step] * len(PROMPTS)


@pytest.mark.parametrize("keep", [0, 1])
def test_asked_to_stop_while_a_checkpoint_is_saved(tmp_path, corpus, keep):
    """In the background: the next save, which the stop asks for, may remove that checkpoint. Its texts are there before."""
    larger = {**MODEL, "num_layers": 4, "hidden_size": 128, "ffn_size": 512}
    path = write_run(tmp_path, corpus, {"prompts": ["The"], "tokens": 2}, model=larger, optimizer=dict(global_batch=32, steps=STEPS, lr=1e-3),
                     checkpoint={"every": EVERY, "keep": keep, "async": True})
    process = subprocess.Popen([TRIREME, "train", path], stderr=subprocess.DEVNULL)
    metrics = tmp_path / "run/metrics.jsonl"
    while f'"step": {EVERY},' not in (metrics.read_text() if metrics.exists() else ""):
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=120) in (0, 130)
    trireme("train", path)
    steps = [json.loads(line)["step"] for line in samples_of(tmp_path).splitlines()]
    assert steps == sorted(set(steps)) and {4, 8, 12} <= set(steps), steps


def test_bad_input(tmp_path, corpus):
    def refused(*parts, samples=None, corpus=corpus, **changes):
        said = trireme("train", write_run(tmp_path, corpus, samples or {}, **changes), status=3).stderr
        assert all(part in said for part in parts), said
        assert not (tmp_path / "run/metrics.jsonl").exists()

    refused("`samples.prompts` number 2 has 65 tokens", "64 positions", samples=dict(prompts=["a", "b" * 65]))
    refused("`tokens` under `samples:`", "between 1 and", samples=dict(tokens=-1))
    refused("`temperature` under `samples:`", "between 0 and", samples=dict(temperature=-0.5))
    refused("`top_p` under `samples:`", samples=dict(top_p=0))
    refused("may have at most 1023 bytes", samples=dict(prompts=["b" * 1024]))
    refused("samples", "16", samples=dict(prompts=["b"] * 17))
    refused("`prompt`", "prompts", samples=dict(prompt="a"))
    refused("samples.tensor is 2, and this job has 1 rank; set it to at most 1", samples=dict(tensor=2))
    said = trireme("train", write_run(tmp_path, corpus, dict(tensor=3)), "-n", 3, "--set", "optimizer.global_batch=3", status=3).stderr
    assert "samples.tensor 3 does not divide the model's 4 heads; 2 or 4 would" in said
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("train.bin", "train.idx"):
        shutil.copy(corpus / name, bare / name)
    refused("`samples.prompts` requests texts", "has no tokenizer.json", "data.tokenizer", corpus=bare)


def test_what_is_in_the_way(tmp_path, corpus):
    (tmp_path / "run/samples.jsonl").mkdir(parents=True)
    said = trireme("train", write_run(tmp_path, corpus, {}), status=4).stderr
    assert "samples.jsonl is a folder, and the run writes a file there" in said


def test_a_full_disk(tmp_path, corpus):
    """Ends the run, as it does with its metrics; the checkpoint stays, and the texts come when there is room."""
    (tmp_path / "run").mkdir()
    before = json.dumps(dict(step=None, prompt="another's", text="b" * 1000)) + "\n"
    room = 10000 * len(before)
    file = tmp_path / "run/samples.jsonl"
    file.write_text(10000 * before)
    path = write_run(tmp_path, corpus, {})

    def limit_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room + 300, room + 300))

    said = trireme("train", path, status=5, preexec_fn=limit_files).stderr
    assert "cannot write" in said and "samples.jsonl" in said and said.count("trireme: ") == 1
    assert (tmp_path / "run/checkpoints/step-00000004").exists() and not (tmp_path / "run/checkpoints/step-00000008").exists()
    trireme("train", path)
    lines = file.read_text().splitlines(keepends=True)
    assert lines[:10000] == 10000 * [before]
    assert [(line["step"], line["prompt"]) for line in map(json.loads, lines[10000:])] == [(step, prompt) for step in (4, 8, 12) for prompt in PROMPTS]


def test_memory(tmp_path, corpus):
    """Samples need the cache of keys and values on the first rank and, unless the generator reads the weights in place, a copy of the whole model: the
    plan has both, and a run without memory for them does not begin."""
    def planned(name, *options):
        out = trireme("train", path, "--dry-run", "--verbose", *options).stdout
        found = re.search(rf"^  {name} +(\d+) bytes", out, re.MULTILINE)
        return int(found.group(1)) if found else 0

    path = write_run(tmp_path, corpus, {}, precision="fp32", device="cpu")
    samples, all_bytes = planned("samples"), planned("all")
    width, kv, ffn = MODEL["hidden_size"], 16, MODEL["ffn_size"]
    parameters = 2 * 257 * width + 2 * (2 * width * width + 2 * width * kv + 3 * width * ffn + 2 * width) + width
    cache = 4 * len(PROMPTS) * 64 * 2 * kv * MODEL["num_layers"]
    assert cache <= samples
    assert planned("samples", "--set", "checkpoint.async=true") == samples
    tensor = planned("samples", "-n", 2, "--set", "layout.tensor=2")
    assert 4 * parameters <= tensor - samples < 4 * parameters + 65536
    for options, words in (((), "the weights are read in place"), (("--set", "precision=bf16"), "with a copy of the weights")):
        assert re.search(rf"^  samples .*; {words}$", trireme("train", path, "--dry-run", "--verbose", *options).stdout, re.MULTILINE)
    assert planned("samples", "-n", 2, "--rank", 1, "--set", "layout.tensor=2") == 0 < planned("samples", "-n", 2, "--set", "layout.tensor=2")
    assert all_bytes - samples == planned("all", "--set", "samples.prompts=[]")
    halves = [planned("samples", "-n", 2, "--rank", rank, "--set", "layout.tensor=2", "--set", "samples.tensor=2") for rank in (0, 1)]
    assert halves[0] == halves[1] and 4 * parameters // 2 < halves[0] < tensor
    if not DEVICE:  # whose names have limits of their own
        room = planned("device memory")
        said = trireme("train", path, "--set", f"device_memory={room - 1}", status=6).stderr
        assert "`device_memory`" in said and " samples " in said and not (tmp_path / "run").exists()
        trireme("train", path, "--set", f"device_memory={room}")
        trireme("train", path, "--set", f"device_memory={room - 1}", "--set", "samples.prompts=[]", "--resume", "never")


TEMPLATE = "{% for m in messages %}[{{ m.role }}]{{ m.content }};{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
QUESTIONS = ["Who is there?", "Once upon"]


@pytest.fixture(scope="module")
def chat_corpus(tmp_path_factory, corpus):
    """The same text with a chat template beside its tokenizer."""
    folder = tmp_path_factory.mktemp("chat")
    for path in corpus.iterdir():
        shutil.copy(path, folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


def test_chat_samples(tmp_path, chat_corpus):
    """Through the template, behind the prompts: what `generate --chat` answers to the message, and what `generate` writes of the rendered prompt."""
    trireme("train", write_run(tmp_path, chat_corpus, dict(prompts=["Once upon"], chat=QUESTIONS), precision="fp64", device="reference"))
    lines = [json.loads(line) for line in samples_of(tmp_path).splitlines()]
    rendered = ["Once upon"] + [f"[user]{question};[assistant]" for question in QUESTIONS]
    assert [(line["step"], line["number"], line["prompt"]) for line in lines] == [(step, n, rendered[n]) for step in (4, 8, 12) for n in range(3)]
    assert [line.get("message") for line in lines] == [None, *QUESTIONS] * 3
    for line in lines:
        line.pop("message", None)
    wanted = [json.loads(line) for line in generated(tmp_path, "--tokens", 20, "--temperature", 0, "--stop", ";", "--precision", "fp64", "--device", DEVICE or "reference",
                                                      prompts=rendered).splitlines()]
    assert lines == wanted
    for question in QUESTIONS:
        done = subprocess.run([TRIREME, "generate", tmp_path / "run", "--chat", "--json", "--tokens", "20", "--temperature", "0", "--precision", "fp64", "--device",
                               DEVICE or "reference"], input=question + "\n", capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)
        assert said["text"] == next(line["text"] for line in lines[-3:] if question in line["prompt"] and line["prompt"] != "Once upon")


def test_chat_samples_of_a_resumed_run(tmp_path, chat_corpus):
    """No text twice; those of another message are added to the newest checkpoint."""
    path = write_run(tmp_path, chat_corpus, dict(prompts=[], chat=QUESTIONS))
    trireme("train", path, "--set", "optimizer.steps=8")
    before = samples_of(tmp_path)
    assert len(before.splitlines()) == 4
    trireme("train", path)
    assert samples_of(tmp_path).startswith(before) and len(samples_of(tmp_path).splitlines()) == 6
    assert "\n  chat:" in (tmp_path / "run/config.yaml").read_text()


@pytest.mark.parametrize("change, message", [
    (dict(chat=["x" * 60]), "`samples.chat` number 1 has 78 tokens, and the model has 64 positions; make it shorter"),
    (dict(chat=["x"] * 17), "has more than 16 entries"),
])
def test_bad_chat_samples(tmp_path, chat_corpus, change, message):
    assert message in trireme("train", write_run(tmp_path, chat_corpus, dict(dict(prompts=[]), **change)), status=3).stderr


def test_chat_samples_without_a_template(tmp_path, corpus):
    said = trireme("train", write_run(tmp_path, corpus, dict(prompts=[], chat=QUESTIONS)), status=3).stderr
    assert "`samples.chat` goes through the chat template, and there is no chat template" in said
    assert not (tmp_path / "run/metrics.jsonl").exists()


def test_an_exported_adapter_talks(tmp_path, chat_corpus):
    """The folder that PEFT reads has the run's template and tokenizer."""
    trireme("train", write_run(tmp_path, chat_corpus))
    trireme("train", write_run(tmp_path / "lora", chat_corpus, init=str(tmp_path / "run"), adapter=dict(rank=2)))
    trireme("export", tmp_path / "lora/run", tmp_path / "peft")
    assert (tmp_path / "peft/chat_template.jinja").read_text() == TEMPLATE
    words = ["--chat", "--tokens", "10", "--temperature", "0"]
    answers = [subprocess.run([TRIREME, "generate", folder, *words], input="Who?\n", capture_output=True, text=True, errors="replace") for folder in (tmp_path / "lora/run", tmp_path / "peft")]
    assert answers[0].returncode == 0 and answers[0].stdout == answers[1].stdout, answers
