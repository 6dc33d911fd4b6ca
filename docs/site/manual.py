#!/usr/bin/env python3
"""Manual pages, which the program writes of itself, as pages of the site: manual.py PAGES OUT. It knows the few requests of
roff that src/cli/man.c writes, and refuses all others."""
import pathlib
import re
import sys

LETTERS = {r"\-": "-", r"\(ga": "`", r"\(ha": "^", r"\(ti": "~", r"\(aq": "'", r"\(dq": '"', r"\e": "\\", r"\&": ""}


def letters(text):
    return re.sub(r"\\\(..|\\[-e&]", lambda found: LETTERS[found[0]], text)


def escaped(text):
    return re.sub(r"([\\*_|`:<>])", r"\\\1", text)


def prose(text):
    """Returns a paragraph in which text between backticks is code."""
    parts = re.split(r"`([^`]+)`", text)
    return "".join(rf"\ ``{part}``\ " if i % 2 else escaped(part) for i, part in enumerate(parts)).strip()


def reference(page, section):
    return f":doc:`{page}({section}) <{page}.{section}>`"


class Page:
    def __init__(self, path):
        self.name, self.section = path.name.rsplit(".", 1)
        self.out, self.lines, self.indent, self.verbatim, self.term = [], [""], "", False, False
        title = f"{self.name}({self.section})" if self.section == "5" else self.name.replace("-", " ", 1)
        self.out += [title, "=" * len(title), ""]
        for line in path.read_text().splitlines():
            self.take(line)
        self.end()

    def end(self):
        """The paragraph is whole: one of several lines that stay apart is a line block."""
        lines, self.lines = [line.strip() for line in self.lines if line.strip()], [""]
        if lines:
            self.out += [self.indent + ("| " if len(lines) > 1 else "") + line for line in lines] + [""]

    def add(self, text):
        self.lines[-1] += " " + text

    def take(self, line):
        if self.verbatim and line != ".fi":
            self.out.append("   " + self.indent + letters(line))
        elif self.term:
            self.head(line)
        elif line.startswith("."):
            request, _, rest = line[1:].partition(" ")
            getattr(self, "request_" + ("comment" if request.startswith("\\") else request))(rest)
        else:
            self.add(prose(letters(line)))

    def head(self, line):
        """Adds the head of an item: bold words and the text after them, or another page."""
        self.indent, self.term = "   ", False
        other = re.fullmatch(r"\.BR (\S+) \((\d)\)", letters(line))
        bold, rest = re.fullmatch(r"(?:\\fB|\.B )(.*?)(?:\\fR(.*))?", line).groups() if not other else ("", "")
        words = reference(*other.groups()) if other else f"**{escaped(letters(bold))}** {escaped(letters(rest or ''))}"
        self.out.append(re.sub(r" +", " ", words).strip())

    def request_comment(self, rest):
        pass

    request_TH = request_comment

    def request_SH(self, rest):
        self.end()
        title = letters(rest).capitalize()
        self.indent = ""
        self.out += [title, "-" * len(title), ""]

    def request_PP(self, rest):
        self.end()
        self.indent = ""

    def request_TP(self, rest):
        self.end()
        self.indent, self.term = "", True

    def request_br(self, rest):
        self.lines.append("")

    def request_nf(self, rest):
        self.end()
        self.verbatim = True
        self.out += [self.indent + ".. code-block:: text", ""]

    def request_fi(self, rest):
        self.verbatim = False
        self.out.append("")

    def request_B(self, rest):
        self.add(f"**{escaped(letters(rest))}**")

    def request_BR(self, rest):
        page, section, behind = re.fullmatch(r"(\S+) \((\d)\)(.*)", letters(rest)).groups()
        self.add(reference(page, section) + escaped(behind))


def contents(title, names):
    return "\n".join([title, "=" * len(title), "", ".. toctree::", "   :maxdepth: 1", "", *("   " + name for name in names), ""])


def main(pages, out):
    out.mkdir(parents=True, exist_ok=True)
    names = {"1": [], "5": []}
    for path in sorted(pages.glob("*.[15]")):
        names[path.suffix[1:]].append(path.name)
        (out / (path.name + ".rst")).write_text("\n".join(Page(path).out) + "\n")
    (out / "commands.rst").write_text(contents("Commands", names["1"]))
    (out / "files.rst").write_text(contents("Keys of files", names["5"]))


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:]))
