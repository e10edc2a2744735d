#!/bin/bash
# The PTX of our kernels, assembled by NVIDIA's ptxas for every kind of GPU that NCCL serves; registers and spills are
# in the log. A driver contains the same assembler.
set -euo pipefail
ptx=worker/kernels/kernels.ptx
[[ -s $ptx ]] || { echo "there are no kernels: clang was not there when they were built" >&2; exit 1; }
for gpu in 75 80 86 89 90 100 120; do
  echo "sm_$gpu"
  ../nvidia/cu13/bin/ptxas -v --warning-as-error -arch="sm_$gpu" -o "$TEST_TMPDIR/sm_$gpu.cubin" "$ptx" 2>&1 |
    grep -E 'error|warning|Compiling|Used|[1-9][0-9]* bytes spill' || true
  [[ -s $TEST_TMPDIR/sm_$gpu.cubin ]]
done
