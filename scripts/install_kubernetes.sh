#!/bin/bash
# Builds a Kubernetes cluster for tests in .deps/kubernetes, and installs nothing: `make test-kubernetes`. From Debian 12:
# the source of Kubernetes with all that it vendors, Go to compile it, and etcd, containerd, runc and what else a node
# needs. Takes five minutes of processor time the first time.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/apt_state.sh

node_packages=(
  # What a node runs beside Kubernetes, a shell for images, and a server of names.
  busybox-static containerd containernetworking-plugins dnsmasq-base etcd-server iptables runc
)
build_packages=(
  # The vendored reflect2 crashes with this Go as soon as there is a custom resource; this one does not.
  golang-1.19-go golang-1.19-src golang-github-modern-go-reflect2-dev
)
programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy)
target=$PWD/.deps/kubernetes

die() {
  echo "install_kubernetes: $*" >&2
  exit 1
}

# The generated files that Kubernetes' own build makes, and Debian's too, but that are in no archive.
generate_openapi() {
  local folders folder inputs=()
  go build -o "$dir/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
  folders=$(grep -rl --include='*.go' -e '+k8s:openapi-gen=' pkg vendor/k8s.io/*/ staging/src/k8s.io |
    grep -vE 'zz_generated|_examples|sample-|/testdata/|code-generator|kube-openapi/(test|cmd|pkg/generators)' |
    xargs -n1 dirname | sed 's#^staging/src/#vendor/#' | sort -u)
  for folder in $folders; do
    compgen -G "$folder/*.go" >/dev/null && inputs+=("k8s.io/kubernetes/$folder")
  done
  "$dir/openapi-gen" -i "$(IFS=,; echo "${inputs[*]}")" -p k8s.io/kubernetes/pkg/generated/openapi \
    -O zz_generated.openapi -h hack/boilerplate/boilerplate.generatego.txt -r "$dir/violations" -o "$GOPATH/src"
}

build_programs() {
  local version=1.20.2 package flags=(-s -w) commands=("${programs[@]/#/./cmd/}")
  export GOROOT=$dir/tools/usr/lib/go-1.19 GOPATH=$dir/go GOCACHE=$dir/cache-of-go
  export GO111MODULE=off GOPROXY=off CGO_ENABLED=0 PATH=$dir/tools/usr/lib/go-1.19/bin:$PATH
  # Debian puts the sources of Go behind links to where its package would be installed.
  rm -f "$GOROOT/src" "$GOROOT/test" "$GOROOT/api" "$GOROOT/misc"
  ln -s "$dir/tools/usr/share/go-1.19/src" "$GOROOT/src"
  mkdir -p "$GOPATH/src/k8s.io"
  mv "$dir/source" "$GOPATH/src/k8s.io/kubernetes"
  cd "$GOPATH/src/k8s.io/kubernetes"
  rm -rf vendor/github.com/modern-go/reflect2
  cp -r "$dir/tools/usr/share/gocode/src/github.com/modern-go/reflect2" vendor/github.com/modern-go/reflect2
  generate_openapi
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    flags+=(-X "k8s.io/kubernetes/vendor/$package.gitVersion=v$version")
    flags+=(-X "k8s.io/kubernetes/vendor/$package.gitMajor=1" -X "k8s.io/kubernetes/vendor/$package.gitMinor=20")
  done
  mkdir -p "$dir/bin"
  # Without what speaks to clouds and to Docker: half of all that would be compiled.
  go build -tags 'providerless dockerless' -ldflags "${flags[*]}" -o "$dir/bin/" "${commands[@]}"
}

wanted=$(cksum <scripts/install_kubernetes.sh)
[[ $(cat "$target/wanted.cksum" 2>/dev/null) == "$wanted" ]] && exit 0
[[ $(dpkg --print-architecture) == amd64 ]] || die "the cluster is built on amd64 alone"
dir=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
# Go leaves folders that even their owner may not write.
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
mkdir -p "$dir"/{node,tools}

echo "install_kubernetes: fetching ${node_packages[*]} ${build_packages[*]}, and the source of Kubernetes"
suite=bookworm
make_apt_state "$dir/state" deb deb-src
mapfile -t node < <(list_with_needs "${node_packages[@]}")
((${#node[@]})) || die "apt does not know the packages of a node; it says why above"
unpack_packages "$dir/node" "${node[@]}"
unpack_packages "$dir/tools" "${build_packages[@]/%//$suite}"
mv "$dir/tools/root"/* "$dir/tools/"
(cd "$dir" && apt-get "${options[@]}" source --download-only kubernetes)
# apt has checked the hashes against the signed index; the signer's own key need not be on this machine.
dpkg-source --no-check -x "$dir"/kubernetes_*.dsc "$dir/source" >/dev/null

echo "install_kubernetes: compiling ${programs[*]}"
# In a condition, what fails in it would not end it.
(build_programs)
rm -rf "$target"
mkdir -p "$(dirname "$target")" "$target"
mv "$dir/bin" "$target/bin"
mv "$dir/node/root" "$target/root"
echo "$wanted" >"$target/wanted.cksum"
