#!/usr/bin/env bash
# Whether a bundle runs where there is nothing: bundle_test.sh BUNDLE_FILE. In an empty root made for the purpose, with a
# shell, a few small tools and the C library, the packed file is unpacked and the program started: alone, two ranks under
# its own launcher, and the check of kernels. Needs the right to change the root; else it says SKIPPED (77).
set -euo pipefail
bundle=$(readlink -f "$1")
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

mkdir -p "$root"/{bin,dev,proc,tmp,etc,root,lib64,lib,usr/bin}
chmod 1777 "$root/tmp"
# What the smallest systems have; mpiexec's proxies are started by a shell.
tools=(sh cat ls env mkdir rm dirname readlink basename uname head tail sed grep tar gzip hostname id cmp)
for tool in "${tools[@]}"; do
  file=$(readlink -f "$(type -P "$tool")")
  cp "$file" "$root/bin/$tool"
  for library in $(ldd "$file" | grep -o '/[^ ]*'); do mkdir -p "$root$(dirname "$library")" && cp -Ln "$library" "$root$library"; done
done
# All of the C library: a program may open parts of it later.
loader=$(ldd "$(readlink -f /bin/sh)" | grep -o '/[^ ]*ld-linux[^ ]*')
libc=$(ldd "$(readlink -f /bin/sh)" | sed -n 's/.*=> \(\/[^ ]*libc\.so[^ ]*\).*/\1/p')
mkdir -p "$root$(dirname "$loader")" && cp -Ln "$loader" "$root$loader"
for part in libc libm libpthread libdl librt libresolv libnss_files libnss_dns libutil; do
  for file in "$(dirname "$libc")/$part".so.*; do [ -e "$file" ] && cp -Ln "$file" "$root$(dirname "$libc")/"; done
done
printf 'root:x:0:0:root:/root:/bin/sh\n' >"$root/etc/passwd"
printf '127.0.0.1 localhost %s\n' "$(hostname)" >"$root/etc/hosts"
cp "$bundle" "$root/tmp/bundle.tar.gz"

cat >"$root/tmp/inside" <<'INSIDE'
set -e
cd /tmp
tar -xzf bundle.tar.gz
cd trireme-*
bin/trireme --version
bin/trireme plan --help | sed -n 1p
bin/trireme prepare scripts/text.txt --tokenizer bytes --out /tmp/text | tail -n 1
cat >/tmp/run.yaml <<'RUN'
output: /tmp/run
data: {train: /tmp/text/train}
model: {family: gpt2, num_layers: 1, hidden_size: 16, num_heads: 2, vocab_size: 300, max_sequence: 8}
optimizer: {steps: 2, lr: 0.001, global_batch: 2}
device: cpu
RUN
bin/trireme train /tmp/run.yaml
bin/trireme train /tmp/run.yaml --resume never -n 2 --set layout.data=2
bin/kernel_check cpu --quick --types fp32 --kernels add,matmul | tail -n 1
bin/trireme train /tmp/run.yaml --resume never --set device=gpu && { echo "there is no GPU in an empty root"; exit 1; }
echo everything ran
INSIDE

# With a tree of processes and a /proc of its own where that is allowed.
start=(unshare --mount --pid --fork --mount-proc="$root/proc" "$(type -P chroot)" "$root" /bin/sh /tmp/inside)
if ! unshare --mount --pid --fork --mount-proc="$root/proc" chroot "$root" /bin/sh -c : 2>/dev/null; then
  echo "bundle_test: SKIPPED: this user may not change the root"
  exit 77
fi
for device in null zero urandom; do mknod -m 666 "$root/dev/$device" c 1 "$(case $device in null) echo 3 ;; zero) echo 5 ;; urandom) echo 9 ;; esac)" 2>/dev/null || cp -a "/dev/$device" "$root/dev/$device"; done
mkdir -p "$root/dev/shm" && chmod 1777 "$root/dev/shm"
env -i PATH=/bin HOME=/root "${start[@]}" 2>&1 | tee "$root/log"
grep -q '^everything ran$' "$root/log"
