#!/usr/bin/env bash
# Builds the Debian packages of a commit (HEAD) and looks whether they hold together.
#
#   scripts/debian-package.sh [--root FOLDER] [COMMIT]
#
# build/debian gets the packages. They are unpacked into a folder, where the program plans with its presets; lintian, where it is
# installed, must find no error. With --root, FOLDER is a Debian system of its own (debootstrap --variant=minbase bookworm
# FOLDER), or made one: the packages are installed there with all that they need, and the program plans and trains, for
# which this must be root's.
set -euo pipefail
cd "$(dirname "$0")/.."

root= commit=HEAD
while [ $# -gt 0 ]; do
  case $1 in
    --root) root=$2; shift 2 ;;
    -*) echo "debian-package: $1 is not an option; there is --root FOLDER" >&2; exit 2 ;;
    *) commit=$1; shift ;;
  esac
done
for tool in dpkg-buildpackage dh fakeroot; do
  command -v "$tool" >/dev/null ||
    { echo "debian-package: there is no $tool; on Debian: apt-get install dpkg-dev debhelper fakeroot" >&2; exit 1; }
done

version=$(sed -n '1s/.*(\(.*\)).*/\1/p' debian/changelog)
out=$PWD/build/debian source=$PWD/build/debian/trireme-$version
rm -rf "$out"
mkdir -p "$source"
git archive "$commit" | tar -x -C "$source"
git describe --always --tags --abbrev=12 "$commit" >"$source/.commit"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$commit") && export SOURCE_DATE_EPOCH
(cd "$source" && DEB_BUILD_OPTIONS="parallel=${JOBS:-$(nproc)} nocheck" dpkg-buildpackage -us -uc -b) >"$out/log" 2>&1 ||
  { tail -30 "$out/log" >&2; echo "debian-package: it does not build; $out/log has all of it" >&2; exit 1; }
rm -rf "$source"

# Unpacked, which asks for nothing that they depend on: the machine has it, since it has built them.
mkdir "$out/unpacked"
for package in "$out"/*.deb; do
  case $package in *-dbgsym_*) continue ;; esac
  dpkg-deb -x "$package" "$out/unpacked"
  echo "debian-package: $(basename "$package"): $(dpkg-deb -c "$package" | grep -vc '/$') files, $(stat -c %s "$package") bytes"
done
"$out/unpacked/usr/bin/trireme" --version
"$out/unpacked/usr/bin/trireme" plan --model gpt2-1.5b --cluster a100-node --devices 4 --global-batch 64 >/dev/null
if command -v lintian >/dev/null; then
  lintian --allow-root --fail-on error "$out"/*.changes
else
  echo "debian-package: SKIPPED: there is no lintian"
fi
[ -n "$root" ] || exit 0

[ -e "$root/etc/debian_version" ] || debootstrap --variant=minbase bookworm "$root" "${MIRROR:-http://deb.debian.org/debian}"
if ! mountpoint -q "$root/proc"; then # ranks look there for their own program
  mount --bind /proc "$root/proc"
  trap 'umount "$root/proc"' EXIT
fi
mkdir -p "$root/packages"
cp "$out"/trireme_*.deb "$out"/libtrireme*.deb "$root/packages/"
rm -f "$root"/packages/*-dbgsym_*
chroot "$root" sh -ec '
  export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
  { apt-get update
    apt-get install -y --no-install-recommends --reinstall /packages/*.deb mpi-default-bin gcc libc6-dev pkg-config
  } >/packages/log 2>&1 || { tail -20 /packages/log; exit 1; }
  useradd --create-home sailor 2>/dev/null || true
  cd /home/sailor
  cat >try.sh <<END
set -e
trireme --version
trireme plan --model gpt2-1.5b --cluster a100-node --devices 4 --global-batch 64 | sed -n 1,3p
seq 1 3000 >text.txt
trireme prepare --force --tokenizer bytes --out corpus text.txt
trireme train run.yaml -n 2 --resume never
cc /usr/share/doc/libtrireme-dev/examples/write_corpus.c \$(pkg-config --cflags --libs trireme) -o write_corpus
./write_corpus bytes again text.txt
END
  cat >run.yaml <<END
model: {family: llama, num_layers: 2, hidden_size: 32, num_heads: 4, ffn_size: 64, vocab_size: 257, max_sequence: 32}
data: {train: corpus/train, sequence: 32}
layout: {tensor: 2, micro_batch: 2}
optimizer: {global_batch: 4, steps: 3, lr: 1.0e-3}
output: run
END
  su sailor -c "sh try.sh"
'
echo "debian-package: installed in $root, it plans, trains on two ranks and compiles an example"
