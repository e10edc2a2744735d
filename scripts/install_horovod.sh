#!/bin/bash
# Builds Horovod 0.28.1 for `make bench-horovod` in an environment of its own, .deps/horovod, with the torch of .venv.
# It wants cmake and ten minutes. Its last release predates torch 2.1, whose headers are C++17: that is all that is
# changed.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.28.1
target=$PWD/.deps/horovod
[[ -x $target/bin/horovodrun ]] && exit 0
command -v cmake >/dev/null || { echo "install_horovod: cmake is missing: apt-get install cmake" >&2; exit 1; }

.venv/bin/python -m venv --clear "$target"
.venv/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' \
  >"$("$target/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/torch.pth"
sources=$(mktemp -d)
trap 'rm -rf "$sources"' EXIT
"$target/bin/pip" install -q "setuptools<70" wheel cloudpickle psutil pyyaml packaging
"$target/bin/pip" download -q --no-deps --no-binary :all: --no-build-isolation -d "$sources" "horovod==$version"
tar -xf "$sources/horovod-$version.tar.gz" -C "$sources"
cd "$sources/horovod-$version"
sed -i 's/set(CMAKE_CXX_STANDARD 14)/set(CMAKE_CXX_STANDARD 17)/' CMakeLists.txt horovod/torch/CMakeLists.txt
export HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITH_GLOO=1
export HOROVOD_WITHOUT_MPI=1
"$target/bin/pip" install -q --no-build-isolation --no-deps .
