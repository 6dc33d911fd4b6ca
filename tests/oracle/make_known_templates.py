#!/usr/bin/env python3
"""Prints the table of src/chat/known_templates.c: make_known_templates.py FOLDER > rows

FOLDER has published templates NAME.jinja and the same with generation blocks, NAME_training.jinja (PyPI's trl: trl/chat_templates). A row has the hash of
the published text and the offsets at which marks are inserted; no text of a template."""
import difflib
import pathlib
import sys

NAMES = ["gptoss", "nemotron_3_nano", "nemotron_3_super", "nemotron_3_ultra", "nemotron_3_5_lightning"]
TURN, END = "'<|im_start|>assistant\\n", "<|im_end|>"


def fnv1a(text):
    value = 0xcbf29ce484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return value


def edits(before, after):
    """[(offset, kind)] of the lines that have marks in `after`."""
    old, new, out = before.splitlines(keepends=True), after.splitlines(keepends=True), []
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line.encode()))
    for kind, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal" or not any("{%- generation" in line or "{%- endgeneration" in line for line in new[j1:j2]):
            continue
        if i1 == i2:
            out.append((starts[i1], "BEGIN_LINE" if "{%- generation" in "".join(new[j1:j2]) else "END_LINE"))
            continue
        line, = old[i1:i2]
        at = line.index(TURN) + len(TURN)
        out.append((starts[i1] + len(line[:at].encode()), "IN_STRING" if line[at:].startswith(END) else "AT_SUM"))
        assert line[at:].startswith(END) or line[at:].startswith("' ~ "), line
        out.append((starts[i1] + len(line.rstrip("\n").encode()), "END"))
    return out


for name in NAMES:
    before, after = ((pathlib.Path(sys.argv[1]) / f"{name}{more}.jinja").read_text() for more in ("", "_training"))
    before = before.removesuffix("\n")
    rows = ", ".join(f"{{{offset}, {kind}}}" for offset, kind in edits(before, after))
    print(f"    /* {name} */\n    {{UINT64_C(0x{fnv1a(before):016x}), {len(before.encode())}, {{{rows}}}}},")
