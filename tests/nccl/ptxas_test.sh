#!/bin/bash
# The PTX of our kernels, assembled by NVIDIA's ptxas for every kind of GPU that it knows from sm_75 on; registers and
# spills are in the log. A driver contains the same assembler.
set -euo pipefail
ptx=worker/kernels/kernels.ptx
[[ -s $ptx ]] || { echo "there are no kernels: clang was not there when they were built" >&2; exit 1; }
ptxas=../nvidia/cu13/bin/ptxas
gpus=$("$ptxas" --help | grep -oE "'sm_[0-9]+'" | tr -dc '0-9\n' | sort -nu | awk '$1 >= 75')
[[ $(wc -w <<<"$gpus") -ge 10 ]] || { echo "ptxas lists no GPUs, but: $gpus" >&2; exit 1; }
for gpu in $gpus; do
  echo "sm_$gpu"
  "$ptxas" -v --warning-as-error -arch="sm_$gpu" -o "$TEST_TMPDIR/sm_$gpu.cubin" "$ptx" 2>&1 |
    grep -E 'error|warning|Compiling|Used|[1-9][0-9]* bytes spill' || true
  [[ -s $TEST_TMPDIR/sm_$gpu.cubin ]]
done
