#!/bin/bash
# Builds Horovod 0.28.1 for benchmarks, in an environment of its own: with the torch of .venv in .deps/horovod; with
# --tensorflow VERSION with the TensorFlow of .deps/tensorflow-VERSION, which is there already, in
# .deps/horovod-tensorflow-VERSION. It wants cmake and ten minutes. Its last release predates torch 2.1, whose headers are
# C++17: that is all that is changed.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.28.1
target=$PWD/.deps/horovod
base=.venv
export HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1
if [[ ${1:-} == --tensorflow ]]; then
  target=$PWD/.deps/horovod-tensorflow-$2
  base=.deps/tensorflow-$2
  unset HOROVOD_WITH_PYTORCH HOROVOD_WITHOUT_TENSORFLOW
  export HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1
fi
[[ -x $target/bin/horovodrun ]] && exit 0
command -v cmake >/dev/null || { echo "install_horovod: cmake is missing: apt-get install cmake" >&2; exit 1; }

packages_of() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])'; }

"$base/bin/python" -m venv --clear "$target"
packages_of "$base" >"$(packages_of "$target")/framework.pth"
sources=$(mktemp -d)
trap 'rm -rf "$sources"' EXIT
"$target/bin/pip" install -q "setuptools<70" wheel cloudpickle psutil pyyaml packaging
"$target/bin/pip" download -q --no-deps --no-binary :all: --no-build-isolation -d "$sources" "horovod==$version"
tar -xf "$sources/horovod-$version.tar.gz" -C "$sources"
cd "$sources/horovod-$version"
sed -i 's/set(CMAKE_CXX_STANDARD 14)/set(CMAKE_CXX_STANDARD 17)/' CMakeLists.txt horovod/*/CMakeLists.txt
export HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_MPI=1
"$target/bin/pip" install -q --no-build-isolation --no-deps .
