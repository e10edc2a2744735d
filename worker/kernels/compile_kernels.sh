#!/bin/bash
# Compiles kernels to PTX: compile_kernels.sh OUT FILE..., of which one is the source, others its headers, and one may be
# clang. Without a clang OUT is empty.
#
# sm_70 is the lowest target whose PTX serves all GPUs from sm_75 on, and clang writes it in a PTX version that every
# driver of CUDA 12 takes. A product and a sum are two roundings, as in worker/arithmetic. No file of CUDA is needed, so
# none is looked for.
set -euo pipefail
out=$1 clang=
for file in "${@:2}"; do
  case $file in
    *.cu) source=$file ;;
    */clang++*) clang=$file ;;
  esac
done
: >"$out"
[[ -z $clang ]] ||
  "$clang" -x cuda --cuda-device-only --cuda-gpu-arch=sm_70 --cuda-path=/nonexistent -nocudainc -nocudalib \
    -Wno-unknown-cuda-version -std=c++17 -O3 -ffp-contract=off -Wall -Wextra -I. -S -o "$out" "$source"
