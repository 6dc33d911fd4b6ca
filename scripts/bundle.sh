#!/usr/bin/env bash
# Packs the program with all that it needs but the C library, for a machine that has nothing of it: one folder, and the
# same as one file.
#
#   scripts/bundle.sh [--out FOLDER] [--build BUILD]
#
# FOLDER (build/bundle) gets trireme-VERSION-MACHINE/ and trireme-VERSION-MACHINE.tar.gz. BUILD (build/mpich, which is made if
# it is not there) is a build with MPICH, whose launcher Hydra comes along: the machine may have no MPI. It runs on any
# Linux of the same processor whose glibc is as new as this machine's. Needs patchelf.
#
#   bin/trireme             the program; bin/ also holds mpiexec, kernel_check and kernel_speed
#   lib/, lib/fallback/     libraries; those of the compiler are taken only where the system has none of its own, which
#                           may be newer and which vendors' libraries may need
#   configs/, scripts/      presets; gpu-check.sh and what it wants
set -euo pipefail
cd "$(dirname "$0")/.."

out=build/bundle build=build/mpich most_bytes=48000000
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=$2; shift 2 ;;
    --build) build=$2; shift 2 ;;
    *) echo "bundle: $1 is not an option; there are --out FOLDER and --build BUILD" >&2; exit 2 ;;
  esac
done

for tool in patchelf strip tar gzip; do
  command -v "$tool" >/dev/null || { echo "bundle: there is no $tool; on Debian: apt-get install patchelf binutils" >&2; exit 1; }
done
if [ ! -x "$build/trireme" ] || [ ! -x "$build/tools/kernel_check" ] || [ ! -x "$build/tools/kernel_speed" ]; then
  cmake --preset mpich >/dev/null
  cmake --build --preset mpich --parallel "${JOBS:-$(nproc)}" --target trireme kernel_check kernel_speed
  build=build/mpich
fi
ldd "$build/trireme" | grep libmpich >/dev/null ||
  { echo "bundle: $build/trireme is not built with MPICH, whose launcher can be carried along; see the preset mpich" >&2; exit 1; }
launcher=$(command -v mpiexec.hydra) && proxy=$(command -v hydra_pmi_proxy) ||
  { echo "bundle: MPICH's launcher is missing (mpiexec.hydra, hydra_pmi_proxy); on Debian: apt-get install mpich" >&2; exit 1; }

version=$(sed -n 's/^project(trireme VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
name=trireme-$version-$(uname -m)
folder=$out/$name
rm -rf "$folder"
mkdir -p "$folder"/{bin,libexec,lib/fallback,scripts}

cp "$build"/{trireme,tools/kernel_check,tools/kernel_speed} "$folder/libexec/"
cp -L "$launcher" "$folder/libexec/mpiexec"
cp -L "$proxy" "$folder/libexec/hydra_pmi_proxy"
strip --strip-unneeded "$folder"/libexec/*

# The C library and what belongs to it are the machine's own: they are tied to its loader.
of_glibc='^(ld-linux.*|lib(c|m|mvec|pthread|dl|rt|resolv|util|anl|nsl|nss_.*|BrokenLocale|thread_db))\.so'
of_compiler='^lib(stdc\+\+|gcc_s|gomp|gfortran|quadmath)\.so'
for library in $(for file in "$folder"/libexec/*; do ldd "$file"; done | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | sort -u); do
  file=$(basename "$library")
  [[ $file =~ $of_glibc ]] && continue
  if [[ $file =~ $of_compiler ]]; then
    mkdir -p "$folder/lib/fallback/$file"
    cp -L "$library" "$folder/lib/fallback/$file/$file"
  else
    cp -L "$library" "$folder/lib/$file"
  fi
done
chmod -R u+w "$folder"
for file in "$folder"/libexec/*; do patchelf --set-rpath '$ORIGIN/../lib' "$file"; done
for file in "$folder"/lib/*.so*; do patchelf --set-rpath '$ORIGIN' "$file"; done

# One starter for all programs: by its name it knows which.
cat >"$folder/bin/trireme" <<'STARTER'
#!/bin/sh
# Starts the program of this name in ../libexec. The compiler's libraries are the system's where it has them.
here=$(dirname "$(readlink -f "$0")")/..
for folder in "$here"/lib/fallback/*; do
  found=
  for place in /lib /usr/lib /lib64 /usr/lib64 /lib/*-linux-gnu /usr/lib/*-linux-gnu; do
    if [ -e "$place/${folder##*/}" ]; then found=yes; fi
  done
  if [ -z "$found" ]; then LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder; fi
done
if [ -n "${LD_LIBRARY_PATH:-}" ]; then export LD_LIBRARY_PATH; fi
PATH=$here/bin:$PATH exec "$here/libexec/${0##*/}" "$@"
STARTER
chmod +x "$folder/bin/trireme"
for program in mpiexec kernel_check kernel_speed; do ln -s trireme "$folder/bin/$program"; done

cp -r configs "$folder/"
cp scripts/gpu-check.sh tests/bench/torch_worker.py "$folder/scripts/"
cat docs/*.md README.md >"$folder/scripts/text.txt" # real text, for runs

tar -C "$out" --sort=name --owner=0 --group=0 --numeric-owner -cf - "$name" | gzip -9 >"$out/$name.tar.gz"
bytes=$(stat -c %s "$out/$name.tar.gz")
if [ "$bytes" -gt "$most_bytes" ]; then
  echo "bundle: $out/$name.tar.gz has $bytes bytes, more than the $most_bytes that it may have" >&2
  exit 1
fi
echo "bundle: $out/$name.tar.gz: $bytes bytes; $folder: $(du -sm "$folder" | cut -f1) MB"
