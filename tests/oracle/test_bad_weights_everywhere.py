"""Commands that read a checkpoint: none of them takes damage for weights, and none says nothing with exit status 0."""
import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess

import numpy
import pytest
from parity import TRIREME, trireme, words_of, yaml_of

MODEL = dict(family="gpt2", num_layers=2, hidden_size=16, num_heads=2, vocab_size=257, max_sequence=32)
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "TRIREME_CHECK_MEMORY": "1"}


def write_corpus(prefix, ids):
    """Megatron-LM's pair of files: one document of 16-bit ids."""
    pathlib.Path(f"{prefix}.bin").write_bytes(numpy.array(ids, numpy.uint16).tobytes())
    documents = 1 if ids else 0
    pathlib.Path(f"{prefix}.idx").write_bytes(
        b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, documents, documents + 1)
        + numpy.array([len(ids)] * documents, numpy.int32).tobytes() + numpy.zeros(documents, numpy.int64).tobytes()
        + numpy.arange(documents + 1, dtype=numpy.int64).tobytes())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two runs of equal shapes and other weights, with shards, and so with index files."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "text.txt").write_text("".join(f"Stroke {i} of {i * 7919 % 1000}.\n" for i in range(400)))
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt")
    for name, seed in (("run", 1), ("other", 2)):
        (folder / f"{name}.yaml").write_text(yaml_of(dict(
            model=MODEL, data=dict(train=str(folder / "data/train"), sequence=16), layout=dict(micro_batch=2), seed=seed,
            optimizer=dict(global_batch=4, steps=4, lr=1e-2), checkpoint=dict(every=2, shard_bytes=9000),
            evaluation=dict(every=0), output=str(folder / name))))
        trireme("train", folder / f"{name}.yaml")
    write_corpus(folder / "short", list(range(32, 64)))
    return folder


@pytest.fixture(scope="module")
def whole(made):
    path = made / "run/checkpoints/step-00000004"
    names = {file.name for file in path.iterdir()}
    assert {"config.json", "tokenizer.json", "state.json", "COMPLETE", "model.safetensors.index.json",
            "optimizer.safetensors.index.json"} <= names and len(names) > 10
    return path


@pytest.fixture
def copy(tmp_path, whole):
    shutil.copytree(whole, tmp_path / "copy")
    return tmp_path / "copy"


# What reads a checkpoint: the words behind the name, and the optimizer's files, if it uses those too.
READERS = {
    "eval": (lambda path, made, new: ["eval", path, made / "short", "--json"], False),
    "generate": (lambda path, made, new: ["generate", path, "--prompt", "S", "--tokens", "1", "--temperature", "0"], False),
    "export": (lambda path, made, new: ["export", path, new], False),
    "import": (lambda path, made, new: ["import", path, new], False),
    "inspect --verify": (lambda path, made, new: ["inspect", path, "--verify"], True),
    "inspect two": (lambda path, made, new: ["inspect", path, made / "run/checkpoints/step-00000004"], True),
    "inspect": (lambda path, made, new: ["inspect", path], True),
    "resume": (lambda path, made, new: ["train", made / "run.yaml", "--resume", path, "--set", f"output={new}", "--set",
                                        "optimizer.steps=5"], True),
}


def read(reader, path, made, new):
    words, _ = READERS[reader]
    return subprocess.run(words_of(*words(path, made, new)), capture_output=True, text=True, env=ENVIRONMENT, errors="replace")


def header_bytes(path):
    return 8 + struct.unpack("<Q", path.read_bytes()[:8])[0]


def tensors_of(path):
    raw = path.read_bytes()
    begin = header_bytes(path)
    facts = json.loads(raw[8:begin])
    return {name: (begin + fact["data_offsets"][0], begin + fact["data_offsets"][1])
            for name, fact in facts.items() if name != "__metadata__"}


def places_of(path, chance):
    """Bytes to flip: in every tensor its ends and one between, and some of all else; of COMPLETE each."""
    size = path.stat().st_size
    if path.name == "COMPLETE":
        return list(range(size))
    if path.suffix != ".safetensors":
        return chance.sample(range(size), 10)
    inside = [at for begin, end in tensors_of(path).values() for at in (begin, chance.randrange(begin, end), end - 1)]
    return list(range(8)) + chance.sample(range(8, header_bytes(path)), 4) + inside


def expect_refusal(done, reader, name, new, tensor=None):
    said = f"{reader}, {name}: {done.stdout[:300]} {done.stderr}"
    assert done.returncode == 4, said
    named = name in done.stderr or name == "COMPLETE" and "state.json" in done.stderr
    assert named and (tensor is None or f"tensor `{tensor}` is damaged" in done.stderr), said
    assert done.stderr.count("trireme: ") == 1 and "still held" not in done.stderr, said
    assert not [path for path in new.parent.iterdir() if path.name.startswith(new.name) and reader != "resume"], said


def uses(reader, name, tensor):
    """Returns whether a reader uses the bytes; it may leave others unread."""
    if name.startswith("optimizer") and not READERS[reader][1]:
        return False
    return tensor is None or reader != "inspect"


@pytest.mark.parametrize("reader", READERS)
def test_flipped_bits(tmp_path, made, whole, copy, reader):
    chance = random.Random(reader)
    good = read(reader, copy, made, tmp_path / "good")
    assert good.returncode == 0, good.stderr
    places = [(file, at) for file in sorted(copy.iterdir()) if file.stat().st_size > 0 for at in places_of(file, chance)]
    by_file = {}
    for file, at in places:
        by_file.setdefault(file, []).append(at)
    # Each reader looks at some of each file's; together they look at all kinds of places many times.
    for file, ats in by_file.items():
        raw = file.read_bytes()
        tensors = tensors_of(file) if file.suffix == ".safetensors" else {}
        for at in chance.sample(ats, min(len(ats), 4)):
            spoiled = bytearray(raw)
            spoiled[at] ^= 1 << chance.randrange(8)
            file.write_bytes(spoiled)
            tensor = next((name for name, (begin, end) in tensors.items() if begin <= at < end), None)
            done = read(reader, copy, made, tmp_path / "new")
            if uses(reader, file.name, tensor):
                expect_refusal(done, reader, file.name, tmp_path / "new", tensor)
            else:
                assert done.returncode == 0 and (reader in ("generate", "export", "import") or done.stdout == good.stdout)
                shutil.rmtree(tmp_path / "new", ignore_errors=True)
        file.write_bytes(raw)


def test_every_tensor_of_the_weights(tmp_path, made, copy):
    """Each of them once, under eval and export in turn."""
    files = [file for file in sorted(copy.iterdir()) if file.name.startswith("model-")]
    places = [(file, name, begin, end) for file in files for name, (begin, end) in tensors_of(file).items()]
    assert len(places) > 20
    for number, (file, name, begin, end) in enumerate(places):
        raw = bytearray(file.read_bytes())
        at = (begin, (begin + end) // 2, end - 1)[number % 3]
        raw[at] ^= 1  # low bits of a mantissa and other bits
        file.write_bytes(raw)
        reader = ("eval", "export", "generate")[number % 3]
        expect_refusal(read(reader, copy, made, tmp_path / "new"), reader, file.name, tmp_path / "new", name)
        raw[at] ^= 1
        file.write_bytes(raw)


def test_every_byte_of_complete(made, copy):
    file = copy / "COMPLETE"
    raw = file.read_bytes()
    for bit in [8 * at + bit for at in range(len(raw)) for bit in {5, at % 8}]:  # 5: blanks and capitals
        spoiled = bytearray(raw)
        spoiled[bit // 8] ^= 1 << bit % 8
        file.write_bytes(spoiled)
        done = subprocess.run([TRIREME, "inspect", str(copy)], capture_output=True, text=True, env=ENVIRONMENT)
        assert done.returncode == 4 and ("COMPLETE is damaged" in done.stderr or "state.json is damaged" in done.stderr), bit


@pytest.mark.parametrize("reader", READERS)
def test_truncated_missing_and_swapped_files(tmp_path, made, whole, copy, reader):
    other = made / "other/checkpoints/step-00000004"
    assert {file.name for file in other.iterdir()} == {file.name for file in whole.iterdir()}
    for file in sorted(file for file in whole.iterdir() if file.stat().st_size > 0):
        target = copy / file.name
        for what in ("truncated", "missing", "swapped"):
            if what == "truncated":
                os.truncate(target, file.stat().st_size - 1)
            elif what == "missing":
                target.unlink()
            else:
                shutil.copy(other / file.name, target)
            same = target.exists() and target.read_bytes() == file.read_bytes()
            headers = target.exists() and file.suffix == ".safetensors" and what == "swapped"  # of equal shapes
            done = read(reader, copy, made, tmp_path / "new")
            if same or not uses(reader, file.name, "some" if headers else None):
                assert done.returncode == 0, (reader, what, file.name, done.stderr)
                shutil.rmtree(tmp_path / "new", ignore_errors=True)
            else:
                expect_refusal(done, reader, file.name, tmp_path / "new")
            shutil.copy(file, target)


def test_words(tmp_path, made, copy):
    state = (copy / "state.json").read_bytes()
    (copy / "state.json").unlink()
    done = trireme("eval", copy, made / "data/train", status=4)
    assert done.stderr == (f"trireme: cannot open {copy}/state.json: No such file or directory; a checkpoint that has COMPLETE "
                           "but not this file is damaged\n")
    (copy / "state.json").write_bytes(state)
    (copy / "COMPLETE").rename(copy / "COMPLETE.old")
    done = trireme("export", copy, tmp_path / "new", status=4)
    assert f"{copy} has no COMPLETE: the save was not finished, or the file was removed" in done.stderr
    done = trireme("export", f"{copy}//", tmp_path / "new", status=4)
    assert f"{copy} has no COMPLETE" in done.stderr
    (copy / "COMPLETE.old").rename(copy / "COMPLETE")
    (copy / "README.md").write_text("Notes of somebody's are not damage.")
    trireme("export", copy, tmp_path / "new")
    for name in ("model.safetensors", "model-00009-of-00009.safetensors", "optimizer.safetensors"):
        shutil.copy(copy / "model-00001-of-00004.safetensors" if (copy / "model-00001-of-00004.safetensors").exists()
                    else next(copy.glob("model-*.safetensors")), copy / name)
        done = trireme("inspect", copy, status=4)
        assert done.stderr == (f"trireme: {copy}/{name} is not listed in state.json: the checkpoint is damaged, or the file "
                               "does not belong there\n")
        if name.startswith("model"):
            trireme("eval", copy, made / "data/train", status=4)
        (copy / name).unlink()


def test_no_verify_says_so(tmp_path, made, whole, copy):
    file = next(copy.glob("model-00001-*.safetensors"))
    raw = bytearray(file.read_bytes())
    raw[-2] ^= 1
    file.write_bytes(raw)
    line = f"warning: {copy} is not compared with its checksums (--no-verify)\n"
    assert trireme("eval", copy, made / "data/train", "--no-verify").stderr.startswith(line)
    assert trireme("generate", copy, "--prompt", "S", "--tokens", "1", "--no-verify", errors="replace").stderr.startswith(line)
    assert trireme("export", copy, tmp_path / "exported", "--no-verify").stderr.startswith(line)
    assert trireme("import", copy, tmp_path / "imported", "--no-verify").stderr.startswith(line)
    assert trireme("inspect", copy, "--no-verify").stderr == line
    done = trireme("inspect", copy, whole, "--no-verify", status=1)
    assert done.stderr.startswith(line) and re.search(r"\S+ differs in 1 values, by \S+ at most\n", done.stdout)
    done = trireme("inspect", copy, "--verify", "--no-verify", status=2)
    assert done.stderr == "trireme: inspect: --verify or --no-verify, not both\n"
    (copy / "state.json").write_text("{")
    assert trireme("eval", copy, made / "data/train", "--no-verify").stderr.startswith(line)


def test_no_verify_of_a_run(tmp_path, made):
    """It is said once, of the newest, which is taken as it is."""
    shutil.copytree(made / "run", tmp_path / "run")
    newest = tmp_path / "run/checkpoints/step-00000004"
    file = next(newest.glob("model-00001-*.safetensors"))
    raw = bytearray(file.read_bytes())
    raw[-2] ^= 1
    file.write_bytes(raw)
    done = trireme("eval", tmp_path / "run", made / "short", "--no-verify")
    assert done.stderr.count("--no-verify") == 1 and f"{newest} is not compared" in done.stderr


def test_a_tokenizer_of_another_checkpoint(tmp_path, made, whole, copy):
    file = copy / "tokenizer.json"
    file.write_text(file.read_text().replace("endoftext", "endoftexT"))
    line = f"{file} is damaged: it has the checksum "
    assert line in trireme("eval", whole, made / "short", "--tokenizer", file, status=4).stderr
    assert line in trireme("generate", whole, "--prompt", "S", "--tokenizer", file, status=4).stderr
    assert line in trireme("prepare", "--tokenizer", file, "--out", tmp_path / "new", made / "text.txt", status=4).stderr
    assert line in trireme("prepare", "--tokenizer", "tokenizer.json", "--out", tmp_path / "new", made / "text.txt", status=4,
                           cwd=copy).stderr.replace("./tokenizer.json", str(file))
    assert not (tmp_path / "new").exists()
    done = trireme("eval", whole, made / "short", "--tokenizer", file, "--no-verify", status=4)
    assert "is another tokenizer than the model was trained with" in done.stderr


def test_a_plain_folder_has_no_checksums(tmp_path, made, copy):
    trireme("export", copy, tmp_path / "plain")
    file = next((tmp_path / "plain").glob("*.safetensors"))
    raw = bytearray(file.read_bytes())
    raw[-2] ^= 1
    file.write_bytes(raw)
    trireme("eval", tmp_path / "plain", made / "data/train")
    trireme("import", tmp_path / "plain", tmp_path / "back")


def test_the_output_of_a_run(tmp_path, made, whole):
    """The newest good checkpoint, and a damaged file of the optimizer does not concern eval."""
    shutil.copytree(made / "run", tmp_path / "run")
    newest = tmp_path / "run/checkpoints/step-00000004"
    expected = {step: trireme("eval", made / f"run/checkpoints/step-0000000{step}", made / "data/train").stdout for step in (2, 4)}
    assert expected[2] != expected[4]

    def flip(name):
        file = next(newest.glob(name))
        raw = bytearray(file.read_bytes())
        raw[-2] ^= 1
        file.write_bytes(raw)

    flip("optimizer-00001-*.safetensors")
    assert trireme("eval", tmp_path / "run", made / "data/train").stdout == expected[4]
    flip("model-00001-*.safetensors")
    done = trireme("eval", tmp_path / "run", made / "data/train")
    assert done.stdout == expected[2] and f"passing over the checkpoint {newest}: " in done.stderr


# ---- values that are not numbers ----------------------------------------------------------------------------------------


def spoil(folder, tensor, value, width=4):
    """Sets an element of a tensor of a plain folder."""
    for file in folder.glob("model*.safetensors"):
        begin, _ = tensors_of(file).get(tensor, (None, None))
        if begin is None:
            continue
        raw = bytearray(file.read_bytes())
        raw[begin + width * 5 : begin + width * 6] = numpy.array([value], numpy.float32).tobytes()[4 - width :]
        file.write_bytes(raw)
        return
    raise AssertionError(tensor)


@pytest.mark.parametrize("value", [numpy.nan, -numpy.inf])
def test_weights_that_are_no_numbers(tmp_path, made, whole, value):
    plain = tmp_path / "plain"
    trireme("export", whole, plain)
    spoil(plain, "transformer.h.1.mlp.c_fc.weight", value)
    line = (f"trireme: {plain}: element 5 of the tensor `transformer.h.1.mlp.c_fc.weight` is NaN or infinite (as fp32), so the "
            "model cannot be used\n")
    for arguments in (["import", plain, tmp_path / "new"], ["export", plain, tmp_path / "new"],
                      ["eval", plain, made / "data/train", "--json"], ["generate", plain, "--prompt", "a"]):
        done = trireme(*arguments, status=4)
        assert done.stderr.endswith(line) and done.stdout == ""
        assert done.stderr == line or arguments[0] == "eval"
        assert [path.name for path in tmp_path.iterdir()] == ["plain"]


def test_weights_that_bf16_cannot_hold(tmp_path, whole):
    plain = tmp_path / "plain"
    trireme("export", whole, plain)
    spoil(plain, "transformer.wte.weight", 3.4e38)
    trireme("export", plain, tmp_path / "fp32")
    done = trireme("export", plain, tmp_path / "bf16", "--precision", "bf16", status=4)
    assert "element 5 of the tensor `transformer.wte.weight` is NaN or infinite (as bf16)" in done.stderr
    assert not (tmp_path / "bf16").exists()


def strict(text):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_a_loss_that_is_no_number(tmp_path, made, whole):
    """Finite weights whose products are not."""
    plain = tmp_path / "plain"
    trireme("export", whole, plain)
    for file in plain.glob("model*.safetensors"):
        raw = bytearray(file.read_bytes())
        for name, (begin, end) in tensors_of(file).items():
            if ".mlp." in name and name.endswith("weight"):
                raw[begin:end] = numpy.full((end - begin) // 4, 1e38, numpy.float32).tobytes()
        file.write_bytes(raw)
    done = trireme("eval", plain, made / "data/train", "--json", status=8)
    facts = strict(done.stdout)
    assert facts["loss"] is None and facts["perplexity"] is None and facts["bits_per_byte"] is None and facts["tokens"] > 0
    assert "trireme: the loss is not a number: the model has diverged, or its numbers are beyond --precision fp32\n" in done.stderr
    done = trireme("eval", plain, made / "data/train", status=8)
    assert re.fullmatch(r"loss            -?nan\n", done.stdout)
    done = trireme("generate", plain, "--prompt", "a", status=8)
    assert "trireme: after 1 tokens the model's logits are not finite (that of token 0 is " in done.stderr
    assert done.stdout == "a\n"


def set_logits(folder, favourite):
    """Makes the final norm's output constant and the (tied) embedding of one token the one that goes with it."""
    for file in folder.glob("model*.safetensors"):
        raw = bytearray(file.read_bytes())
        for name, (begin, end) in tensors_of(file).items():
            values = numpy.frombuffer(raw[begin:end], numpy.float32).copy()
            if name.endswith("ln_f.weight"):
                values[:] = 0
            elif name.endswith("ln_f.bias"):
                values[:] = 1
            elif name.endswith("wte.weight"):
                values[:] = 0
                values.reshape(-1, MODEL["hidden_size"])[favourite] = 1
            raw[begin:end] = values.tobytes()
        file.write_bytes(raw)


def test_generate_of_nothing(tmp_path, whole):
    plain = tmp_path / "plain"
    trireme("export", whole, plain)
    set_logits(plain, 256)  # the end of the text
    done = trireme("generate", plain, "--prompt", "S", "--temperature", "0", status=2)
    assert done.stdout == "S\n"
    assert done.stderr.endswith("trireme: generate: the model ended the text at once, and no token was written; try another --prompt, "
                                "--seed or --temperature\n")
    set_logits(plain, ord("o"))
    assert trireme("generate", plain, "--prompt", "S", "--temperature", "0", "--tokens", "3").stdout == "Sooo\n"
    # A vocabulary that goes on where the tokenizer ends.
    tokenizer = json.loads((plain / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"] = {word: number for word, number in tokenizer["model"]["vocab"].items() if number < 256}
    last = max(tokenizer["model"]["vocab"].values())
    tokenizer["added_tokens"] = []
    (plain / "tokenizer.json").write_text(json.dumps(tokenizer))
    for name in "config.json", "generation_config.json", "tokenizer_config.json":  # it is not the end of the text either
        if (plain / name).exists():
            said = json.loads((plain / name).read_text())
            (plain / name).write_text(json.dumps({key: value for key, value in said.items() if not key.startswith("eos_token")}))
    set_logits(plain, last + 1)
    done = trireme("generate", plain, "--prompt", "S", "--temperature", "0", "--tokens", "3", status=3)
    assert done.stderr.endswith(f"trireme: generate: none of the 3 tokens that the model made has any text in the tokenizer, which knows "
                                f"{last + 1} of its vocabulary of 257; name the model's with --tokenizer\n")


def test_no_label_counts(tmp_path, made):
    """The run ignored a token; eval of its checkpoint does, too, and has nothing to say of a corpus of that alone."""
    run = json.loads((made / "run.yaml").read_text())
    run["output"], run["data"]["ignore_token"] = str(tmp_path / "run"), ord("0")
    run["data"]["validation"], run["evaluation"] = str(made / "data/train"), dict(every=4, batches=1000)
    (tmp_path / "run.yaml").write_text(yaml_of(run))
    trireme("train", tmp_path / "run.yaml")
    text = (made / "text.txt").read_text()
    facts = strict(trireme("eval", tmp_path / "run", made / "data/train", "--json").stdout)
    everything = strict(trireme("eval", made / "run", made / "data/train", "--json").stdout)
    assert 0 < facts["tokens"] < everything["tokens"] and facts["bytes"] < everything["bytes"] <= len(text)
    assert everything["tokens"] - facts["tokens"] == everything["bytes"] - facts["bytes"]
    write_corpus(tmp_path / "zeros", [ord("0")] * 300)
    done = trireme("eval", tmp_path / "run", tmp_path / "zeros", "--json", "--bigram", made / "data/train", status=4)
    facts = strict(done.stdout)
    assert facts["loss"] is None and facts["bigram_loss"] is None and facts["tokens"] == 0
    assert done.stderr.endswith(f"trireme: {tmp_path}/zeros: every label is the token 48, which does not count (the run's "
                                "data.ignore_token), so there is no loss\n")
    assert trireme("eval", tmp_path / "run", tmp_path / "zeros", status=4).stdout == ""


def test_corpora_too_short(tmp_path, made, whole):
    for count, words in ((0, "the corpus is empty (0 documents, no tokens)"), (1, "has 1 token, but at least two are needed")):
        write_corpus(tmp_path / f"c{count}", [7] * count)
        done = trireme("eval", whole, tmp_path / f"c{count}", "--json", status=4)
        assert words in done.stderr and done.stdout == ""
        done = trireme("eval", whole, made / "data/train", "--bigram", tmp_path / f"c{count}", status=4)
        assert words in done.stderr


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *os.sys.argv[1:]]))
