#!/usr/bin/env python3
"""Refuses words that docs/glossary.md replaced: check_words.py TREE.

Looks at code, comments, messages, tests and pages. PHRASES are regular expressions in which a blank stands for any white space, a line
break in a comment too; NAMES are identifiers and files that have better names now. EXCEPTIONS names what may stay, with a reason.
CHANGELOG.md, which describes the old names, and this file are not checked. Prints one line for each finding and exits with 1 if there was any.
"""

import fnmatch
import os
import re
import sys

# Not variables, and not the sentence that tests train on.
NOBODY = r"nobody (?!on it can)[a-z]+|(?:for|to|by) nobody|nobody's"

# The refused phrases, and the ones to write instead.
PHRASES = {
    r"whoever": "name who does it: the caller, the rank that, any process that",
    r"where there (?:is|are|was|were) none": "if there is none",
    r"of one mind": "agree",
    r"come and go": "are gathered and released",
    r"last words": "error message (of the rank that failed)",
    r"taken up again": "resumed",
    r"tak(?:es|ing|en) up (?:a|the) run": "resumes the run",
    r"begins? anew": "start over",
    r"filled up with padding|filling up": "padded",
    r"stored turned": "stored transposed",
    r"that is none of": "that is not one of",
    r"is led to the one": "the nearest name is suggested",
    r"words of a dead rank|obituar(?:y|ies)": "launcher message about a dead rank",
    r"the simulator's clockwork": "discrete-event simulation",
    r"what (?:a|the) run says of itself": "log lines, metrics",
    # The number that a parameter holds; `so many of them that` is plain English.
    r"so many(?! (?:\w+ )?that\b)": "that many, or the number's name",
    r"likewise": "the same, also",
    # Not the parameters of that name.
    r"(?<=[a-z*#/]\s)(?<!bool\s)(?<!return\s)anew": "again, start over",
    NOBODY: "no rank, no process, unused, not given",
    r"(?-i:(?:that|it|what|which|empty|\d) is none)": "is not one, 0: unused",
}

# Identifiers and files by their old names.
NAMES = {
    "tri_attend": "tri_supervise", "tri_obituary": "tri_rank_death", "tri_leftovers_remove": "tri_stale_shm_remove",
    "tri_word_folder": "tri_error_files", "tri_is_other_name": "tri_is_name_alias", "tri_companions": "tri_extra_files",
    "tri_companion_texts": "tri_extra_texts", "tri_dialect": "tri_hf_keys", "tri_shards": "tri_checkpoint_map", "tri_walk": "tri_event_sim",
    "tri_walker": "tri_stage_process", "tri_expense": "tri_run_cost", "tri_trained": "tri_training_options",
    "tri_uneven": "tri_document_imbalance", "tri_drawn_areas": "tri_attention_fractions", "tri_draws": "tri_drawn_documents",
    "tri_reached": "tri_device_aware", "tri_tuning": "tri_trainable", "tri_kept": "tri_saved_error", "tri_keep": "tri_error_save",
    "tri_between_ranks": "tri_mesh_collective", "tri_passing": "tri_transfer", "tri_span": "tri_group_extent, tri_owned_span or tri_lane_span",
    "tri_mesh_place": "tri_mesh_coordinates", "tri_readiness_agree": "tri_startup_check_agreement", "tri_run_settle": "tri_run_resolve_auto",
    "TRI_LABEL_FILLING": "TRI_LABEL_PADDING", "TRI_PRODUCT_TURNED": "TRI_PRODUCT_TRANSPOSED", "TRI_PATH_FEW": "TRI_PATH_SKINNY",
    "weights_pass": "weights_gathered", "taking_up": "resume", "softens_in_steps": "unfused_softmax",
    "tri_mesh_seat": "tri_mesh_position", "tri_frozen_stretch": "tri_frozen_range", "tri_logit_stretch": "tri_logit_range",
    "tri_sampling_wish": "tri_sampling_request", "tri_guesser": "tri_proposer", "dialects": "hf_keys",
    "tri_model_area": "tri_model_attention_fraction", "tri_step_area": "tri_step_attention_fraction",
    "tri_gpu_products": "tri_gpu_gemms", "tri_gpu_product": "tri_gpu_gemm", "TRI_PARENT_ECHO": "TRI_PARENT_SECONDARY",
    # Static functions are named by their action.
    r"(?<=\s|\*)(?:take|put|look|tell)_[a-z_]+(?=\([a-z_]+ [^()]*\) \{)": "read_, write_, append_, allocate_, find_, log_",
}

# (file pattern, phrase or name): why it may stay.
EXCEPTIONS = {
    ("tests/oracle/families.py", NOBODY): "a case's name, a key of family_cases.json and the seed of its weights",
}

SUFFIXES = (".c", ".h", ".py", ".md", ".cmake", ".sh", ".js", ".css", ".html", ".yaml", ".cu", ".inc", "CMakeLists.txt", "Makefile")
SKIPPED = {"CHANGELOG.md", *(f"tests/floors/check_{name}.py" for name in ("words", "words_test", "plain", "plain_test"))}
FOLDERS = ("src", "include", "tests", "docs", "cmake", "scripts", "configs", "examples", "packaging", "debian")
# Between two words: white space, with a comment's mark at the begin of the next line, or the seam of two string literals.
BREAK = r'(?:\s+(?:[*#/]+\s+)?|\s*"\s*\n\s*")'


def compiled():
    """[(what is shown, what to write instead, its pattern)]"""
    found = [(phrase, instead, re.compile(r"\b(?:" + phrase.replace(" ", BREAK) + r")\b", re.IGNORECASE)) for phrase, instead in PHRASES.items()]
    return found + [(name, instead, re.compile(rf"(?<![A-Za-z0-9_]){name}(?![A-Za-z0-9_])")) for name, instead in NAMES.items()]


def files_of(tree):
    """Paths below `tree`, relative to it, in order."""
    for folder in FOLDERS + ("",):
        top = os.path.join(tree, folder)
        for at, folders, names in os.walk(top):
            folders[:] = sorted(folders) if folder else []
            for name in sorted(names):
                path = os.path.relpath(os.path.join(at, name), tree)
                if name.endswith(SUFFIXES) and path not in SKIPPED and not os.path.islink(os.path.join(tree, path)):
                    yield path


def check_text(path, text, patterns, used):
    """Yields a line for each refused word of one file; adds the exceptions that were used to `used`."""
    for shown, instead, pattern in patterns:
        for match in pattern.finditer(text):
            excepted = [key for key in EXCEPTIONS if key[1] == shown and fnmatch.fnmatch(path, key[0])]
            used.update(excepted)
            if not excepted:
                line = text.count("\n", 0, match.start()) + 1
                yield f"{path}:{line}: `{' '.join(match.group(0).split())}`; write: {instead} (docs/glossary.md)"


def check_tree(tree):
    """All findings of a tree, exceptions that its files do not need any more among them, and the number of files."""
    patterns, used, findings, paths = compiled(), set(), [], list(files_of(tree))
    for path in paths:
        with open(os.path.join(tree, path), encoding="utf-8") as file:
            findings += check_text(path, file.read(), patterns, used)
    unused = [key for key in sorted(set(EXCEPTIONS) - used) if fnmatch.filter(paths, key[0])]
    findings += [f"{path}: nothing there says `{shown}` any more; take the exception out of check_words.py" for path, shown in unused]
    return findings, len(paths)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: check_words.py TREE")
    findings, count = check_tree(sys.argv[1])
    if count == 0:
        sys.exit(f"check_words: there is nothing to look at in {sys.argv[1]}")
    for finding in findings:
        print(finding)
    print(f"check_words: {count} files, {len(findings)} findings")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
