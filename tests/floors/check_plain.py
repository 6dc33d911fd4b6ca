#!/usr/bin/env python3
"""Counts comments, sentences and messages that have to be read twice: check_plain.py [--list] [--lower] TREE [FOLDER...]

    check_plain.py .                    fails if a folder has more of them than plain.json allows, and prints their places
    check_plain.py --list . src/data    prints all places of a folder and of those below it, allowed or not
    check_plain.py --lower .            writes plain.json with today's numbers where they are lower

FORMS has each form as a regular expression in which a blank stands for any white space, and an example of what to write instead. The texts:
comments of C and Python with docstrings, sentences of pages (outside blocks of code), and the strings of src that scripts/messages.py finds.
The numbers of plain.json may only fall; a folder that it does not name may have none. CHANGELOG.md is not looked at.
"""

import argparse
import ast
import collections
import io
import json
import os
import re
import sys
import tokenize

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))
import messages  # pylint: disable=wrong-import-position

BEGIN = r"(?:^|[.;] )"  # of a sentence
INNER = r"(?:^|[.;:(] )"  # of a sentence, of a list, or in parentheses
COPULA = r"(?:is|are|was|were|be|been|being)"
DETERMINER = r"(?:a|an|the|all|each|every|this|which|what|those|both|one|its|their|whole|these)"

# Name, pattern (of text in lower case), what to write instead, a planted example.
FORMS = [
    ("what", INNER + r"what (?:is|are|was|it|they|a|an|the|this|its|his|of|has|have|does|do|no|must|may|can|comes|goes|stands|lies|belongs)\b",
     "begin with the noun: the rows that, the bytes of, returns the", "What is left of the rows."),
    ("of", BEGIN + rf"of (?:{DETERMINER}|matrices|rows)\b", "name the thing: size of the, rows of the", "Of all ranks, by index."),
    ("where", r"(?:^|[.] )where\b", "position of, if, on GPUs that", "Where the file is old, a copy."),
    ("whichever", BEGIN + r"(?:whichever|whoever|whatever|however many|likewise)\b", "a subject and a verb", "Whichever is less."),
    ("what-says", r"\bwhat [a-z_' ]{1,40} (?:says?|tells?|said|told|asks?|wants?)\b", "the settings in, reads ... from", "reads what the run says of its rows"),
    ("told", rf"\b{COPULA} told\b|\btells? (?:of|apart|everybody|nobody)\b|\btold (?:of|apart|later)\b",
     "printed, reported, distinguished, passed to", "the rank is told"),
    ("somebody", r"\b(?:some|no|every|any)body(?:'s)?\b", "the user, no rank, all ranks, other processes", "nobody reads it"),
    ("wants", r"(?<!\buser )\bwants\b|\b(?:others|they|options|kernels|queues|rows|products|ranks) want\b|\bthe wanted\b|\bwish(?:es)?\b|\bfor want of\b",
     "needs, requests, requested, expects", "the kernel wants a buffer"),
    ("there-is", r"(?<!\bif )\bthere (?:is|are) none\b|\b(?:all|any|many|one) that there (?:is|are)\b|\b(?:is|are|was) there already\b"
     r"|\bwhat is there\b|\b(?:it|that) is there(?:[.,;:]|$)", "absent, existing, not found, NULL if", "the name; NULL: there is none"),
    ("is-another", rf"\b(?:is|are|be) (?:another|others)(?!'s| )\b", "differs", "fails if the size is another"),
    ("is-no", r"(?<!\bthere )\b(?:is|are) no (?!longer\b|more\b|less\b|one\b)[a-z]+", "is not a", "the file is no folder"),
    ("behind", r"\b(?:behind|beside) (?:it|them|that|those|what|which|this|each)\b", "after, next to, following", "the rows behind it"),
    ("those-that", INNER + r"(?:those|ones?) (?:that|which) (?:are|is|have|has|there (?:are|is))\b"
     r"|\b(?:those|ones?) (?:that|which) (?:there )?(?:are|is)(?:[.,;:]|$)", "a noun and an adjective", "Those that are open."),
    ("stands-lies", r"\bstands? (?:in|at|on|there|beside|behind|before|above|below|as|where)\b"
     r"|\b(?:lies?|lay) (?:at|there|beside|behind|before|as|where|in(?! (?:the |a )?(?:range|interval)))\b", "is stored in, is at", "the list lies in a block"),
    ("once-more", r"\b(?:once more|made again|again from)\b", "recomputed, again", "the forward is made again"),
    ("takes-up", r"\b(?:taken up|takes? up|taking up|gives? way|let go|lets? go|comes? from nowhere|goes? on with|going on with)\b",
     "resumes, continues, frees, ends, in progress", "the run goes on with step 3"),
    ("of-which", r"\b(?:of|beside|behind) which\b", "two sentences", "a list of rows, of which one is free"),
    ("cut", r",\s*$", "a sentence that ends where its comment ends", "bytes of a page,"),
]
MESSAGE_FORMS_LESS = {"cut"}  # strings go on in others

COMMENT_OF_C = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*(?P<block>.*?)\*/|//(?P<lines>[^\n]*(?:\n[ \t]*//[^\n]*)*)', re.DOTALL)
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
PARAGRAPH = re.compile(r"[^\n]+(?:\n(?![\n*|#-])[^\n]+)*")
C_FILES, FOLDERS = (".c", ".h", ".def"), ("src", "include", "tests", "scripts", "docs", "examples")
TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "plain.json")


def plain(text):
    """A comment's text on one line, without marks at the begins of lines and rules of hyphens."""
    text = re.sub(r"\n\s*(?:\*|/+|#)", "\n", text)
    return re.sub(r"\s+", " ", text).strip(" -/*#")


def comments_of_c(text):
    for match in COMMENT_OF_C.finditer(text):
        comment = match.group("block") or match.group("lines")
        if comment:
            yield text.count("\n", 0, match.start()) + 1, plain(comment)


def comments_of_python(text):
    """Comments, those of adjacent lines as one, and docstrings by sentence."""
    lines = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            own = token.line.strip().startswith("#")
            if lines and own and lines[-1][2] == token.start[0] - 1:
                lines[-1] = (lines[-1][0], lines[-1][1] + "\n" + token.string, token.start[0])
            else:
                lines.append((token.start[0], token.string, token.start[0] if own else -1))
    yield from ((line, plain(comment)) for line, comment, _ in lines)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node):
            yield node.body[0].lineno, plain(ast.get_docstring(node))


def sentences_of_page(text):
    text = FENCE.sub(lambda match: "\n" * match.group(0).count("\n"), text)
    for match in PARAGRAPH.finditer(text):
        for sentence in re.split(r"(?<=[.;:])\s+|\|", re.sub(r"\s+", " ", match.group(0))):
            yield text.count("\n", 0, match.start()) + 1, sentence.strip(" -*#|")


def texts_of(path, text):
    """Yields (group, line, text, forms that do not count) for each text of one file."""
    folder = os.path.dirname(path) or path
    if path.endswith(C_FILES):
        yield from ((folder, line, comment, ()) for line, comment in comments_of_c(text))
        if path.startswith("src/"):
            yield from ((f"messages of {folder}", line, message, MESSAGE_FORMS_LESS) for line, message in messages.texts_of(text))
    elif path.endswith(".py"):
        yield from ((folder, line, comment, ()) for line, comment in comments_of_python(text))
    else:
        yield from ((folder, line, sentence, ()) for line, sentence in sentences_of_page(text))


def files_of(tree):
    for folder in FOLDERS + ("",):
        for at, folders, names in os.walk(os.path.join(tree, folder)):
            folders[:] = sorted(folders) if folder else []
            for name in sorted(names):
                path = os.path.relpath(os.path.join(at, name), tree)
                examples = path in ("tests/floors/check_plain.py", "CHANGELOG.md")
                if name.endswith((*C_FILES, ".py", ".md")) and not examples and not os.path.islink(os.path.join(tree, path)):
                    yield path


def read_tree(tree):
    """Counts the texts of each group, and finds those with a form: ({group: count}, {group: [line]}, {group: texts with a form})."""
    patterns = [(name, re.compile(pattern), instead) for name, pattern, instead, _ in FORMS]
    totals, places, found = collections.Counter(), collections.defaultdict(list), collections.Counter()
    for path in files_of(tree):
        with open(os.path.join(tree, path), encoding="utf-8") as file:
            text = file.read()
        for group, line, one, without in texts_of(path, text):
            if len(one) < 6:
                continue
            totals[group] += 1
            hits = [(name, instead) for name, pattern, instead in patterns if name not in without and pattern.search(one.lower())]
            found[group] += bool(hits)
            places[group] += [f"{path}:{line}: [{name}] {one[:160]}; write: {instead}" for name, instead in hits]
    return totals, places, found


def lowered(allowed, found):
    """Returns the table with the numbers that have fallen; a number never rises, and a group without findings is left out."""
    table = {group: min(count, found.get(group, 0)) for group, count in sorted(allowed.items())}
    return {group: count for group, count in table.items() if count}


def print_share(totals, found, kind, of_kind):
    total, hits = sum(totals[g] for g in totals if of_kind(g)), sum(found[g] for g in found if of_kind(g))
    if total:
        print(f"check_plain: {kind}: {hits} of {total} have to be read twice ({100 * hits / total:.1f} %)")


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n", 1)[0].split(": ", 1)[1])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--lower", action="store_true")
    parser.add_argument("--allowed", default=TABLE)
    parser.add_argument("tree")
    parser.add_argument("folders", nargs="*")
    options = parser.parse_args()
    totals, places, found = read_tree(options.tree)
    if not totals:
        sys.exit(f"check_plain: there is nothing to look at in {options.tree}")
    if options.list:
        groups = [g for g in places if not options.folders or any(f"{g.removeprefix('messages of ')}/".startswith(f"{f.rstrip('/')}/") for f in options.folders)]
        print("\n".join(line for group in groups for line in places[group]))
        return
    allowed = {}
    if os.path.exists(options.allowed):
        with open(options.allowed, encoding="utf-8") as file:
            allowed = json.load(file)
    if options.lower:
        with open(options.allowed, "w", encoding="utf-8") as file:
            json.dump(lowered(allowed, found), file, indent=0)
            file.write("\n")
        return
    above = [group for group in sorted(found) if found[group] > allowed.get(group, 0)]
    for group in above:
        print("\n".join(places[group]))
        print(f"{group}: {found[group]} texts have such a form, and {allowed.get(group, 0)} are allowed")
    print_share(totals, found, "comments of src", lambda group: group.startswith("src/"))
    print_share(totals, found, "pages", lambda group: group == "README.md" or group.startswith("docs"))
    print_share(totals, found, "messages", lambda group: group.startswith("messages"))
    print_share(totals, found, "tests and scripts", lambda group: group.split("/")[0] in ("tests", "scripts"))
    sys.exit(1 if above else 0)


if __name__ == "__main__":
    main()
