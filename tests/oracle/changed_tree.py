"""A copy of the sources in which a page of docs/ is done as it is printed, and programs of it.

Compiled are those files that the page changes or adds, and those that tell values of a list apart that has become longer; all else is
what the build has. That is sound where a page adds rows at the end of lists, because other values stay what they are, and it takes
seconds where the whole tree takes minutes."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["TRIREME"]).resolve().parent


def blocks_of(page, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / page).read_text(), re.S)


class ChangedTree:
    def __init__(self, folder):
        if shutil.which("ninja") is None or not (BUILD / "build.ninja").exists():
            pytest.skip("SKIPPED: there is no Ninja, or the program does not lie in a build folder of it")
        self.folder, self.touched = folder, set()
        shutil.copytree(ROOT / "src", folder / "src")

    def do(self, page):
        """Blocks of changes, and files: the code behind "`src/...c`:"."""
        for change in blocks_of(page, "diff"):
            self.change(change)
        for name, text in re.findall(r"`(src/[\w/]+\.c)`:\n\n```c\n(.*?)```", (ROOT / "docs" / page).read_text(), re.S):
            assert not (self.folder / name).exists(), name
            (self.folder / name).write_text(text)
            self.touched.add(name)

    def change(self, diff):
        lines = diff.splitlines()
        name = lines[0].removeprefix("--- a/")
        assert lines[1] == f"+++ b/{name}"
        text = (self.folder / name).read_text()
        for hunk in re.split(r"^@@.*\n", "\n".join(lines[2:]) + "\n", flags=re.M)[1:]:
            before = "".join(line[1:] + "\n" for line in hunk.splitlines() if line[0] != "+")
            after = "".join(line[1:] + "\n" for line in hunk.splitlines() if line[0] != "-")
            assert text.count(before) == 1, f"{name} has no longer, or more than once:\n{before}"
            text = text.replace(before, after)
        (self.folder / name).write_text(text)
        self.touched.add(name)

    def moved(self, command, name, source=None):
        """Returns a compiler command changed for the copy: with its source, include folder and object, and without dependency files."""
        words = [word.replace(f"{ROOT}/src", f"{self.folder}/src") for word in shlex.split(command)]
        for flag in ("-MF", "-MT"):
            if flag in words:
                del words[words.index(flag) : words.index(flag) + 2]
        words = [word for word in words if word != "-MD"]
        words[words.index("-o") + 1] = str(self.folder / name)
        words[words.index("-c") + 1] = str(source or words[words.index("-c") + 1])
        return words + ["-Werror"]

    def build(self, programs, knows):
        """Builds the programs and returns {program: path}. `knows`: pattern of the text of files that have to be compiled again."""
        commands = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", *programs], capture_output=True, text=True, check=True).stdout.splitlines()
        compiled = [line for line in commands if f" -c {ROOT}/src/" in line]
        jobs = []
        for line in compiled:
            name = re.search(rf" -c {ROOT}/(src/\S+)", line)[1]
            if name in self.touched or re.search(knows, (self.folder / name).read_text()):
                jobs.append(self.moved(line, f"{len(jobs)}.o"))
        for name in self.touched:
            if not (ROOT / name).exists():  # as its neighbours are
                line = next(line for line in compiled if f" -c {ROOT}/{os.path.dirname(name)}/" in line)
                jobs.append(self.moved(line, f"{len(jobs)}.o", self.folder / name))
        for job in jobs:
            done = subprocess.run(job, cwd=BUILD, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        return {program: self.link(program, commands, len(jobs)) for program in programs}

    def link(self, program, commands, objects):
        """Before all archives, so that nothing of them takes the place of what is new."""
        line = next(line for line in commands if f" -o {program} " in line and " -c " not in line)
        words = shlex.split(line.removeprefix(": && ").removesuffix(" && :"))
        path = self.folder / os.path.basename(program)
        words[words.index("-o") + 1] = str(path)
        at = next(i for i, word in enumerate(words) if word.endswith(".a"))
        words[at:at] = [str(self.folder / f"{i}.o") for i in range(objects)]
        done = subprocess.run(words, cwd=BUILD, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return path
