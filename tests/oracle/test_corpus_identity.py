"""Identity of corpora and tokenizers, tested through the program: files that do not belong together are refused with their names, and files
that do are accepted."""
import ctypes
import ctypes.util
import json
import os
import shutil
import subprocess

import pytest
from parity import TRIREME, trireme, yaml_of
from tokenizers import Tokenizer

TEXT = "pull the oars in time, all the oars of the three banks\n" * 400
MODEL = dict(family="gpt2", num_layers=1, hidden_size=16, num_heads=2, vocab_size=300, max_sequence=32)


def prepare(folder, tokenizer, text=TEXT, *more):
    source = folder.parent / f"{folder.name}.txt"
    source.write_text(text)
    trireme("prepare", "--tokenizer", tokenizer, "--documents", "line", "--validation", "0.1", "--force", "--out", folder,
            *more, source)
    return folder


def train(folder, corpus, **model):
    run = dict(model={**MODEL, **model}, data=dict(train=str(corpus / "train"), sequence=16), layout=dict(micro_batch=2),
               optimizer=dict(global_batch=2, steps=2, lr=1e-3), checkpoint=dict(every=2), evaluation=dict(every=0),
               output=str(folder))
    path = folder.parent / f"{folder.name}.yaml"
    path.write_text(yaml_of(run))
    trireme("train", path)
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Three corpora, two of them of tokenizers of 257 tokens that give them other ids, and a run on the first."""
    folder = tmp_path_factory.mktemp("made")
    prepare(folder / "bytes", "bytes")
    prepare(folder / "learnt", "train:257")
    prepare(folder / "larger", "train:270")
    train(folder / "run", folder / "bytes")
    return folder


def failure(done):
    lines = [line for line in done.stderr.splitlines() if line.startswith("trireme: ")]
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_eval_compares_tokenizers(made):
    said = trireme("eval", made / "run", made / "bytes/validation").stderr
    assert "tokenizer" not in said and "vocabulary" not in said, said
    for other in "learnt", "larger":
        said = failure(trireme("eval", made / "run", made / f"{other}/validation", status=4))
        assert f"the corpus {made}/{other}/validation was made with another tokenizer (2" in said
        assert f"step-00000002/tokenizer.json (257 tokens, fingerprint 77c4e0e6)" in said
        assert "prepare the corpus with `trireme prepare --tokenizer " in said
    # The tokenizer that made the corpus is not the model's either.
    said = failure(trireme("eval", made / "run", made / "learnt/validation", "--tokenizer", made / "learnt/tokenizer.json", status=4))
    assert "is another tokenizer than the model was trained with" in said
    said = failure(trireme("eval", made / "run", made / "bytes/validation", "--bigram", made / "larger/train", status=4))
    assert "were made with different tokenizers; prepare one of them with the tokenizer.json of the other" in said


def test_generate_compares_tokenizers(made, tmp_path):
    said = failure(trireme("generate", made / "run", "--prompt", "a", "--tokenizer", made / "learnt/tokenizer.json", status=4))
    assert f"--tokenizer {made}/learnt/tokenizer.json (257 tokens, fingerprint " in said
    assert "step-00000002/tokenizer.json (257 tokens, fingerprint 77c4e0e6); omit --tokenizer" in said
    # The same one, written by another program in another way, and the same by name.
    Tokenizer.from_file(str(made / "bytes/tokenizer.json")).save(str(tmp_path / "same.json"), pretty=False)
    assert (tmp_path / "same.json").read_bytes() != (made / "bytes/tokenizer.json").read_bytes()
    for same in tmp_path / "same.json", "bytes":
        trireme("generate", made / "run", "--prompt", "a", "--tokens", 3, "--tokenizer", same, errors="replace")


def test_the_saved_tokenizer_makes_the_same_corpus(made, tmp_path):
    again = prepare(tmp_path / "again", made / "learnt/tokenizer.json")
    assert (again / "train.corpus.json").read_text() == (made / "learnt/train.corpus.json").read_text()


def test_both_files_of_a_gpt2_vocabulary(made, tmp_path):
    """The same tokenizer in GPT-2's format makes the same corpus; merges that were cut at the end of a line are said."""
    model = json.loads((made / "larger/tokenizer.json").read_text())["model"]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    (tmp_path / "gpt2").mkdir()
    (tmp_path / "gpt2/encoder.json").write_text(json.dumps(model["vocab"]))
    (tmp_path / "gpt2/vocab.bpe").write_text("#version: 0.2\n" + "".join(f"{merge}\n" for merge in merges))
    again = prepare(tmp_path / "again", f"gpt2:{tmp_path}/gpt2")
    assert (again / "train.corpus.json").read_text() == (made / "larger/train.corpus.json").read_text()
    text = tmp_path / "again.txt"
    command = "prepare", "--tokenizer", f"gpt2:{tmp_path}/gpt2", "--force", "--out", again, text
    assert "gpt2/vocab.bpe" not in trireme(*command).stderr
    (tmp_path / "gpt2/vocab.bpe").write_text("#version: 0.2\n" + "".join(f"{merge}\n" for merge in merges[:-4]))
    said = trireme(*command).stderr
    assert f"warning: {tmp_path}/gpt2/vocab.bpe makes none of 4 tokens of {tmp_path}/gpt2/encoder.json; the first of them is " in said


def test_a_learnt_vocabulary_replaces_the_tokenizer_that_is_there(made, tmp_path):
    folder = tmp_path / "c"
    shutil.copytree(made / "bytes", folder)
    refused = failure(trireme("prepare", "--tokenizer", "train:270", "--out", folder, made / "bytes.txt", status=2))
    assert f"{folder} holds a corpus already (train.bin); choose another --out, or give --force to replace it" in refused
    refused = failure(trireme("prepare", "--tokenizer", folder / "tokenizer.json", "--out", folder, made / "bytes.txt", status=2))
    assert f"{folder} holds a corpus already (train.bin)" in refused  # files beside the tokenizer are not the tokenizer's
    for path in folder.glob("*.corpus.json"):
        path.unlink()
    for path in [*folder.glob("*.bin"), *folder.glob("*.idx")]:
        path.unlink()
    refused = failure(trireme("prepare", "--tokenizer", "train:270", "--out", folder, made / "bytes.txt", status=2))
    assert "(tokenizer.json)" in refused  # only this one is left, and it is not the one asked for
    prepare(folder, "train:270")
    assert (folder / "tokenizer.json").read_bytes() == (made / "larger/tokenizer.json").read_bytes()
    refused = failure(trireme("eval", made / "run", folder / "train", status=4))
    assert "was made with another tokenizer (270 tokens" in refused


def test_a_corpus_without_a_record_is_accepted_and_that_is_said(made, tmp_path):
    for suffix in "bin", "idx":
        shutil.copy(made / f"bytes/train.{suffix}", tmp_path / f"train.{suffix}")
    said = trireme("eval", made / "run", tmp_path / "train").stderr
    assert said.count("the tokenizer of") == 1, said


@pytest.mark.parametrize("size, is_said", [(257, False), (320, False), (384, False), (385, True), (4096, True)])
def test_a_large_gap_is_said(made, tmp_path, size, is_said):
    run = train(tmp_path / "run", made / "bytes", vocab_size=size)
    said = trireme("eval", run, made / "bytes/validation").stderr
    assert (f"was made with a vocabulary of 257, but the model's is {size}; " in said) == is_said, said
    # Whether a token of those that it made has a text is another matter.
    said = subprocess.run([TRIREME, "generate", run, "--prompt", "a", "--tokens", "2"], capture_output=True).stderr.decode()
    assert (f"the tokenizer has 257 tokens and the model's vocabulary {size}: " in said) == is_said, said


# ---- parts of two corpora ------------------------------------------------------------------------------------------

def refusal(made, prefix, status=4):
    return failure(trireme("eval", made / "run", prefix, status=status))


def test_parts_of_two_corpora(made, tmp_path):
    other = prepare(tmp_path / "other", "bytes", TEXT.replace("three", "seven"))  # the same sizes
    for name in "bin", "idx", "corpus.json":
        folder = tmp_path / f"mixed-{name}"
        shutil.copytree(made / "bytes", folder)
        shutil.copy(other / f"train.{name}", folder / f"train.{name}")
        if (folder / f"train.{name}").read_bytes() == (made / f"bytes/train.{name}").read_bytes():
            assert name == "idx"
            continue
        said = refusal(made, folder / "train")
        assert f"{folder}/train.bin and {folder}/train.idx are not the corpus that {folder}/train.corpus.json describes" in said
        assert f"if the change was intended, remove {folder}/train.corpus.json" in said
    folder = tmp_path / "side by side"
    shutil.copytree(made / "bytes", folder)
    for path in other.glob("validation.*"):
        shutil.copy(path, folder)
    for name in "train", "validation":
        assert "come from two different runs of `trireme prepare`" in refusal(made, folder / name)
    (folder / "validation.corpus.json").unlink()
    trireme("eval", made / "run", folder / "train")


def test_an_edit(made, tmp_path):
    shutil.copytree(made / "bytes", tmp_path / "edited")
    path = tmp_path / "edited/train.bin"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert "a part of it was replaced or changed" in refusal(made, tmp_path / "edited/train")
    path.write_bytes((made / "bytes/train.bin").read_bytes() + b"more")
    assert "the file was changed after `trireme prepare` wrote it" in refusal(made, tmp_path / "edited/train")
    assert "the file was changed after" in trireme("inspect", tmp_path / "edited/train", status=4).stderr


GOOD = dict(version=1, corpus="0" * 32, tokens=1, documents=1, tokenizer="0" * 32, vocab_size=1, generation="0" * 32)


@pytest.mark.parametrize("content, text", [
    (b"", "not valid JSON at line 1"), (b"\0", "not valid JSON"), (b"\0" * 1000, "not valid JSON"), (b"{", "not valid JSON at line 1"),
    (b"[]", "must hold a JSON object"), (b"3", "not valid JSON"), (b"{}", 'it has no "version"'), (b'{"version": "1"}', 'it has no "version"'),
    (b'{"version": 4}', "has version 4, but this program reads versions 1 to 3"), (b'{"version": 1}', '"corpus" must be a string of 32 hexadecimal'),
    (b'{"version": 1, "version": 1}', "not valid JSON"), (b" " * 70000, "is larger than the 64"),
    (b'{"version": 1, "corpus": "\xff"}', "not valid JSON"), (b"[" * 60000, "not valid JSON"),
    (dict(GOOD, corpus="0" * 31), '"corpus" must be a string of 32'), (dict(GOOD, corpus="0" * 31 + "G"), '"corpus" must be'),
    (dict(GOOD, corpus="0" * 32 + "\0"), "not valid JSON"), (dict(GOOD, tokens="1"), '"tokens" must be a whole number of at least 1'),
    (dict(GOOD, tokens=-1), '"tokens" must be'), (dict(GOOD, tokens=1.5), '"tokens" must be'), (dict(GOOD, tokens=10**30), "not valid JSON"),
    (dict(GOOD, documents=None), '"documents" must be'), (dict(GOOD, vocab_size=0), '"vocab_size" must be a whole number of at least 1'),
    (dict(GOOD, tokenizer=""), '"tokenizer" must be'), (dict(GOOD, generation={}), '"generation" must be'),
    (GOOD, "are not the corpus that"),
])
def test_a_damaged_record(made, tmp_path, content, text):
    shutil.copytree(made / "bytes", tmp_path / "c")
    path = tmp_path / "c/train.corpus.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    said = refusal(made, tmp_path / "c/train")
    assert str(path) in said and text in said, said


def test_a_damaged_record_is_in_nobodys_way(made, tmp_path):
    """The other corpus does not need it, and prepare replaces it."""
    shutil.copytree(made / "bytes", tmp_path / "c")
    (tmp_path / "c/train.corpus.json").write_text("{")
    trireme("eval", made / "run", tmp_path / "c/validation")
    prepare(tmp_path / "c", "bytes")
    trireme("eval", made / "run", tmp_path / "c/train")


def test_a_record_that_is_no_file(made, tmp_path):
    shutil.copytree(made / "bytes", tmp_path / "c")
    path = tmp_path / "c/train.corpus.json"
    for make in lambda: os.mkfifo(path), path.mkdir, lambda: path.symlink_to("/dev/zero"), lambda: path.symlink_to(tmp_path / "none"):
        path.unlink() if not path.is_dir() else path.rmdir()
        make()
        assert str(path) in refusal(made, tmp_path / "c/train")


# ---- a prepare that was killed -------------------------------------------------------------------------------------

@pytest.mark.parametrize("moved", range(5))
def test_the_next_reader_finishes(made, tmp_path, moved):
    """`moved` of the new files are in their place; the old corpus has a validation part, the new one has none."""
    old, new = prepare(tmp_path / "old", "bytes"), tmp_path / "new"
    (tmp_path / "new.txt").write_text(TEXT.upper())
    trireme("prepare", "--tokenizer", "bytes", "--validation", "0", "--out", new, tmp_path / "new.txt")
    whole = old / ".prepare-whole"
    whole.mkdir()
    names = ["train.corpus.json", "train.bin", "train.idx", "tokenizer.json"]
    (whole / "members").write_text("".join(f"{name}\n" for name in names))
    for i, name in enumerate(names):
        shutil.copy(new / name, (old if i < moved else whole) / name)
    abandoned = old / ".prepare-999999-0"
    abandoned.mkdir()
    (abandoned / "train.bin.partial").write_bytes(b"half")
    said = trireme("eval", made / "run", old / "train").stderr
    assert ("`trireme prepare` ended while it replaced the corpus; that is finished now" in said) == (moved < 4), said
    assert {path.name for path in old.iterdir()} == {*names, abandoned.name}
    for name in names:
        assert (old / name).read_bytes() == (new / name).read_bytes()
    prepare(old, "bytes")
    assert not [path for path in old.iterdir() if path.name.startswith(".")]


def test_a_folder_that_may_only_be_read(made, tmp_path):
    """The mount is a test's own; where that is not allowed the unit test test_prepare_crash alone looks at it."""
    if os.geteuid() != 0 or os.system("unshare -m true 2>/dev/null") != 0:
        pytest.skip("SKIPPED: only root may mount")
    folder = prepare(tmp_path / "old", "bytes")
    (folder / ".prepare-whole").mkdir()
    (folder / ".prepare-whole/members").write_text("train.bin\ntrain.idx\ntrain.corpus.json\ntokenizer.json\n")
    (folder / "train.bin").rename(folder / ".prepare-whole/train.bin")
    script = f"mount --bind {folder} {folder} && mount -o remount,bind,ro {folder} && exec {TRIREME} eval {made}/run {folder}/train"
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True)
    assert done.returncode == 5, done.stderr
    said = failure(done)
    assert f"{folder} has parts of two corpora: `trireme prepare` ended while it replaced the corpus" in said
    assert "(Read-only file system); run the command as a user who may write" in said
    trireme("eval", made / "run", folder / "train")


# ---- records of when the machine's PCRE2 decided what a letter is -----------------------------------------------------

def byte_letters():
    """The letters of byte-level vocabularies, in the order of the bytes."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte if byte in printable else 256 + others.index(byte)) for byte in range(256)]


def write_tokenizer(path, *stages):
    vocabulary = {letter: id for id, letter in enumerate(byte_letters())} | {"<|endoftext|>": 256}
    if stages[-1]["type"] != "ByteLevel":
        stages = [*stages, dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=False)]
    path.write_text(json.dumps(dict(
        version="1.0", added_tokens=[dict(id=256, content="<|endoftext|>", special=True)], normalizer=None, decoder=dict(type="ByteLevel"),
        pre_tokenizer=dict(type="Sequence", pretokenizers=stages), model=dict(type="BPE", vocab=vocabulary, merges=[]))))
    return path


def regex(pattern):
    return dict(type="Split", pattern=dict(Regex=pattern), behavior="Isolated", invert=False)


# The second is the fingerprint that the program wrote before; None: it is that of now.
STAGES = {
    "digits": (dict(type="Digits", individual_digits=True), "423556d9c170a34f6772a27f4f63712b"),
    "digits-runs": (dict(type="Digits", individual_digits=False), "842021a195a56258e06532a7c2535410"),
    "punctuation": (dict(type="Punctuation", behavior="Isolated"), "67852546e09e2a7499b09fa0a62e8baa"),
    "punctuation-runs": (dict(type="Punctuation", behavior="Contiguous"), "05c0359b039cbdde8b22fba02708dfa1"),
    "gpt2": (dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True), "9888c2438aba473dd250bb0c9075d79e"),
    "letters": (regex(r"\p{L}+|[^\p{N}]"), "0139babb8ca77605eb051259b278596f"),
    "words": (regex(r"\w+"), "58caa6fbbc43f8e701fc732899f8ac03"),
    "spaces": (regex(r"\s+|[^\S\n]|[a-zé]+"), None),
    "string": (dict(type="Split", pattern=dict(String="oars"), behavior="Isolated", invert=False), None),
}


def records(folder):
    return [json.loads((folder / f"{name}.corpus.json").read_text()) for name in ("train", "validation")]


@pytest.mark.parametrize("name", STAGES)
def test_fingerprints_that_were_written_before(tmp_path, name):
    stage, before = STAGES[name]
    for record in records(prepare(tmp_path / "corpus", write_tokenizer(tmp_path / "tokenizer.json", stage))):
        assert record.get("tokenizer_before") == before
        assert record["tokenizer"] != before


def make_old(folder):
    """Records as they were before."""
    for name in "train", "validation":
        path = folder / f"{name}.corpus.json"
        record = json.loads(path.read_text())
        record["tokenizer"] = record.pop("tokenizer_before")
        path.write_text(json.dumps(record))


def checksum(data):
    library = ctypes.CDLL(ctypes.util.find_library("xxhash"))
    library.XXH3_64bits.argtypes, library.XXH3_64bits.restype = [ctypes.c_char_p, ctypes.c_size_t], ctypes.c_uint64
    return library.XXH3_64bits(data, len(data))


TAKEN = "was made by a version that took letters, digits and punctuation from the machine's PCRE2; it is used, but"


def test_what_was_made_before_is_taken(made, tmp_path):
    """Corpora and checkpoints, each with one line; another tokenizer is refused as ever."""
    corpus = shutil.copytree(made / "larger", tmp_path / "corpus")
    old = shutil.copytree(made / "larger", tmp_path / "old")
    make_old(old)
    run = train(tmp_path / "run", corpus)
    said = trireme("eval", run, old / "validation").stderr
    assert said.count(f"the corpus {old}/validation {TAKEN}") == 1 and said.count(TAKEN) == 1, said
    assert "was made with another tokenizer" in failure(trireme("eval", made / "run", old / "validation", status=4))

    record = records(corpus)[0]
    path = run / "checkpoints/step-00000002/state.json"
    state = path.read_text().replace(record["tokenizer"], record["tokenizer_before"]).encode()
    assert state != path.read_bytes()
    path.write_bytes(state)
    (path.parent / "COMPLETE").write_text(f"state.json {len(state)} {checksum(state):016x}\n")
    said = trireme("train", tmp_path / "run.yaml", "--set", "optimizer.steps=4").stderr
    assert said.count(f"the checkpoint {run}/checkpoints/step-00000002 {TAKEN}") == 1, said

    two = dict(model=MODEL, layout=dict(micro_batch=2), optimizer=dict(global_batch=2, steps=1, lr=1e-3), evaluation=dict(every=0),
               data=dict(train=[dict(path=str(corpus / "train"), weight=1), dict(path=str(old / "validation"), weight=1)], sequence=16),
               output=str(tmp_path / "two"))
    (tmp_path / "two.yaml").write_text(yaml_of(two))
    said = trireme("train", tmp_path / "two.yaml").stderr
    assert said.count(f"the corpus {old}/validation {TAKEN}") == 1 and said.count(TAKEN) == 1, said
    (tmp_path / "corpus/tokenizer.json").unlink()
    (tmp_path / "old/tokenizer.json").unlink()
    two["output"] = str(tmp_path / "three")
    (tmp_path / "two.yaml").write_text(yaml_of(two))
    trireme("train", tmp_path / "two.yaml")  # compared with each other alone


def test_a_run_file_of_a_newer_version(made, tmp_path):
    """A checkpoint's run file with a key that this version lacks: the run resumes, and a line says that its keys are not compared."""
    run = train(tmp_path / "run", made / "larger")
    path = run / "checkpoints/step-00000002/state.json"
    document = json.loads(path.read_text())
    document["config"] += "\nbanana: 3\n"
    state = json.dumps(document).encode()
    path.write_bytes(state)
    (path.parent / "COMPLETE").write_text(f"state.json {len(state)} {checksum(state):016x}\n")
    said = trireme("train", tmp_path / "run.yaml", "--set", "optimizer.steps=4").stderr
    assert said.count(f"warning: {path.parent}: the keys of its run file are not compared with this run's: ") == 1 and "banana" in said, said
