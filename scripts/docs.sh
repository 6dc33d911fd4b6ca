#!/usr/bin/env bash
# The documentation site, build/docs/html, of docs/, README, the library's headers and the program's own manual pages:
#
#   scripts/docs.sh [--program build/trireme] [--out build/docs]
#
# A link that leads nowhere, a picture that is not there, a page in no table of contents: each fails.
set -euo pipefail
cd "$(dirname "$0")/.."
program=build/trireme out=build/docs
while [ $# -gt 0 ]; do
  case "$1" in
    --program) program=$2 ;;
    --out) out=$2 ;;
    *) echo "docs: \`$1\` is not an option; there are --program and --out" >&2; exit 2 ;;
  esac
  shift 2
done

# The system's Python and not one that a user has in front of it: Debian's modules belong to it.
python=/usr/bin/python3
[ -x "$python" ] || python=python3
missing=()
has_module() { "$python" -c "import importlib.util as u, sys; sys.exit(u.find_spec('$1') is None)" 2>/dev/null; }
has_module sphinx || missing+=(python3-sphinx)
has_module myst_parser || missing+=(python3-myst-parser)
has_module breathe || missing+=(python3-breathe)
has_module sphinx_rtd_theme || missing+=(python3-sphinx-rtd-theme)
command -v doxygen >/dev/null || missing+=(doxygen)
if [ ${#missing[@]} -gt 0 ]; then
  echo "docs: the site needs what this machine lacks (Debian: ${missing[*]}); scripts/install-deps.sh --docs installs it" >&2
  exit 1
fi
if [ ! -x "$program" ]; then
  echo "docs: there is no program at $program, which writes the manual pages; make build makes it" >&2
  exit 1
fi

mkdir -p "$out"
out=$(realpath "$out")
source=$out/source
rm -rf "$source" "$out/doxygen" "$out/man" "$out/html"
mkdir -p "$source" "$out/man" "$out/doxygen"
for name in docs configs examples include scripts src README.md CHANGELOG.md CONTRIBUTING.md LICENSE; do
  [ ! -e "$name" ] || ln -s "$PWD/$name" "$source/$name"
done
ln -s "$PWD/docs/site/index.md" "$PWD/docs/site/api.md" "$source/"

"$program" help --man-pages "$out/man"
"$python" -B docs/site/manual.py "$out/man" "$source/manual"
{ cat docs/site/Doxyfile; echo "OUTPUT_DIRECTORY = \"$out/doxygen\""; } | doxygen - >"$out/doxygen/log" 2>&1 || { cat "$out/doxygen/log" >&2; exit 1; }

version=$(sed -n 's/^project(trireme VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
TRIREME_VERSION=$version TRIREME_DOXYGEN=$out/doxygen/xml PYTHONDONTWRITEBYTECODE=1 \
  "$python" -m sphinx -q -W --keep-going -n -b html -d "$out/doctrees" -c docs/site "$source" "$out/html"
echo "docs: $out/html/index.html"
