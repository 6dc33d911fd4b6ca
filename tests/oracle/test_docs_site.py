"""The documentation site: the contents of its pages, and the failure of its build if a link, a picture or a page is out of place."""
import html
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ["TRIREME"]).resolve()


def build(folder):
    """In a copy of what the site is made of, in whose pages a test may plant what it likes."""
    done = subprocess.run([folder / "scripts/docs.sh", "--program", PROGRAM, "--out", folder / "out"], capture_output=True, text=True, timeout=300)
    if "the site needs what this machine lacks" in done.stderr:
        pytest.skip(done.stderr.strip())
    return done


@pytest.fixture
def copy(tmp_path):
    for name in ("docs", "examples", "include", "configs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "src").symlink_to(ROOT / "src")
    (tmp_path / "scripts").mkdir()
    for name in ("scripts/docs.sh", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "CMakeLists.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def words_of(page):
    return html.unescape(re.sub(r"<[^>]*>", "", page.read_text()))


def test_pages(copy):
    """The site has each page of docs/, each command and each kind of file, and functions with the comments of their headers."""
    done = build(copy)
    assert done.returncode == 0, done.stderr
    site = copy / "out/html"
    for page in (copy / "docs").glob("*.md"):
        title = page.read_text().splitlines()[0].removeprefix("# ").replace("`", "")
        assert title in words_of(site / "docs" / (page.stem + ".html")), page
    pages = subprocess.run([PROGRAM, "help", "--man-pages", copy / "man"], capture_output=True, text=True)
    assert pages.returncode == 0, pages.stderr
    assert all((site / "manual" / (page.name + ".html")).exists() for page in (copy / "man").glob("*.[15]"))
    keys = subprocess.run([PROGRAM, "train", "--keys"], capture_output=True, text=True, check=True).stdout
    said = words_of(site / "manual/trireme-run.5.html")
    for line in keys.splitlines():
        key = re.match(r" *([a-z_]+)\b", line)
        assert key is None or key[1] in said, line
    api = words_of(site / "api.html")
    for header in (copy / "include/trireme").glob("*.h"):
        for function in re.findall(r"^TRIREME_API .*?(trireme_\w+)\(", header.read_text(), re.M):
            assert function in api, function
    assert "Release *ids with trireme_free" in api and "row by row, as TRIREME_FP32" in api
    assert not re.search(r'(?:src|href)="(?:https?:)?//[^"]*\.(?:js|css|woff2?|png)"', (site / "index.html").read_text())


FAULTS = ["[a](nothing.md)", "[b](families.md#not-there)", "[c](#not-here-either)", "![d](images/none.png)", "[e](../configs/none.yaml)"]


def test_faults_are_told(copy):
    with open(copy / "docs/board.md", "a") as page:
        page.write("\n" + "\n\n".join(FAULTS) + "\n")
    (copy / "docs/unlisted.md").write_text("# A page in no table of contents\n")
    done = build(copy)
    assert done.returncode != 0
    for fault in FAULTS:
        assert re.search(rf"board\.md:\d+: WARNING: .*{re.escape(fault.split('(')[1][:-1])}", done.stderr), (fault, done.stderr)
    assert re.search(r"unlisted\.md: WARNING: document isn't included in any toctree", done.stderr), done.stderr


def test_what_is_missing_is_named(copy):
    """With a Python of no modules and no Doxygen."""
    script = copy / "scripts/docs.sh"
    script.write_text(script.read_text().replace("python=/usr/bin/python3", "python=/nothing").replace("|| python=python3", "|| python=false"))
    (copy / "bin").mkdir()
    for name in ("bash", "dirname", "cat"):
        (copy / "bin" / name).symlink_to(shutil.which(name))
    done = subprocess.run(["bash", script], env={"PATH": str(copy / "bin")}, capture_output=True, text=True)
    assert done.returncode == 1
    for package in ("python3-sphinx", "python3-myst-parser", "python3-breathe", "python3-sphinx-rtd-theme", "doxygen", "install-deps.sh --docs"):
        assert package in done.stderr, done.stderr


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *os.sys.argv[1:]]))
