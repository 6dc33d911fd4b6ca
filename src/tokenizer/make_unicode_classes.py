#!/usr/bin/env python3
"""Writes unicode_classes.c, the general category of every code point, next to this file (or to the path given).

    python3 -m pip install unicodedata2==16.0.0
    python3 src/tokenizer/make_unicode_classes.py

Hugging Face `tokenizers` decides with three versions of Unicode, the versions of its parts: regular
expressions (Oniguruma) know 16.0, its Digits (Rust's char::is_numeric) 17.0, and its Punctuation (the crate
unicode_categories) 8.0. The table is made from 16.0, and says where the two others differ: the lists below.
tests/oracle/test_unicode_classes.py asks `tokenizers` about every code point; when that fails because `tokenizers` has
moved to a later version, VERSION and the lists are what to change.
"""

import pathlib
import sys

import unicodedata2

VERSION = "16.0.0"

# The parts of L, M, N, ... are adjacent; unicode_lookup.c has the same order.
CATEGORIES = "Lu Lt Ll Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
NUMERIC, PUNCTUATION = 1 << 5, 1 << 6  # as in unicode_classes.h

# Code points that 17.0 has added to Nd, Nl and No.
NUMBERS_SINCE = [(0x11DE0, 0x11DE9), (0x16FF4, 0x16FF6)]

# Code points that are punctuation in VERSION and were not in 8.0; and code points that were, and no longer are.
PUNCTUATION_SINCE = [
    (0x061D, 0x061D), (0x09FD, 0x09FD), (0x0A76, 0x0A76), (0x0C77, 0x0C77), (0x0C84, 0x0C84), (0x1B4E, 0x1B4F),
    (0x1B7D, 0x1B7F), (0x2E43, 0x2E4F), (0x2E52, 0x2E5D), (0x10D6E, 0x10D6E), (0x10EAD, 0x10EAD), (0x10F55, 0x10F59),
    (0x10F86, 0x10F89), (0x113D4, 0x113D5), (0x113D7, 0x113D8), (0x1144B, 0x1144F), (0x1145A, 0x1145B),
    (0x1145D, 0x1145D), (0x11660, 0x1166C), (0x116B9, 0x116B9), (0x1183B, 0x1183B), (0x11944, 0x11946),
    (0x119E2, 0x119E2), (0x11A3F, 0x11A46), (0x11A9A, 0x11A9C), (0x11A9E, 0x11AA2), (0x11B00, 0x11B09),
    (0x11BE1, 0x11BE1), (0x11C41, 0x11C45), (0x11C70, 0x11C71), (0x11EF7, 0x11EF8), (0x11F43, 0x11F4F),
    (0x11FFF, 0x11FFF), (0x12FF1, 0x12FF2), (0x16D6D, 0x16D6F), (0x16E97, 0x16E9A), (0x16FE2, 0x16FE2),
    (0x1E5FF, 0x1E5FF), (0x1E95E, 0x1E95F),
]  # fmt: skip
PUNCTUATION_ONCE = [(0x166D, 0x166D), (0x111C9, 0x111C9)]


def among(code, ranges):
    return any(first <= code <= last for first, last in ranges)


def facts(code):
    category = unicodedata2.category(chr(code))
    numeric = category[0] == "N" or among(code, NUMBERS_SINCE)
    punctuation = category[0] == "P" and not among(code, PUNCTUATION_SINCE) or among(code, PUNCTUATION_ONCE)
    return CATEGORIES.index(category) | NUMERIC * numeric | PUNCTUATION * punctuation


def main():
    if unicodedata2.unidata_version != VERSION:
        sys.exit(
            f"make_unicode_classes.py: unicodedata2 has Unicode {unicodedata2.unidata_version}, and the table is of {VERSION}; "
            f"install unicodedata2=={VERSION}"
        )
    rows, before = [], None
    for code in range(0x110000):
        now = facts(code)
        if now != before:
            rows.append(code << 8 | now)
        before = now
    lines = [", ".join(f"0x{row:X}" for row in rows[i : i + 9]) for i in range(0, len(rows), 9)]
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("unicode_classes.c")
    out.write_text(
        "/* Made by make_unicode_classes.py; change that, not this. */\n"
        "/* clang-format off */\n"
        '#include "tokenizer/unicode_classes.h"\n\n'
        f'const char tri_unicode_version[] = "{VERSION}";\n\n'
        f"const int tri_unicode_num_runs = {len(rows)};\n\n"
        "const uint32_t tri_unicode_runs[] = {\n  " + ",\n  ".join(lines) + ",\n};\n"
    )


if __name__ == "__main__":
    main()
