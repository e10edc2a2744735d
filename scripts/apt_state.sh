# Sourced by the scripts that fetch Debian packages without installing them. `die TEXT...` is theirs.

# Where apt gets this release's packages from, as lines of a source list, which begin with deb for binary packages and
# with deb-src for their sources; both lie in the same place. Debian's keys are in apt's default trust.
write_source_list() {
  apt-get indextargets --format "$1 "'$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
    sort -u >"$2"
  [[ -s $2 ]] || die "apt knows no Debian source of packages; look at /etc/apt/sources.list and run apt-get update"
}

# An apt state in folder $1 that knows packages of the kinds that follow, deb or deb-src; sets `options` for apt-get to
# use it. The machine's own lists may be old, and only root may renew them. With `suite` set: that one's packages alone.
make_apt_state() {
  local dir=$1 kind
  mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial" "$dir/parts"
  for kind in "${@:2}"; do
    write_source_list "$kind" "$dir/sources-$kind"
    # The archive of security has suites of other names.
    if [[ -n ${suite:-} ]]; then
      sed -i "/-security\|-updates/d; s/^\([^ ]* [^ ]*\) [^ ]*/\1 $suite/" "$dir/sources-$kind"
    fi
  done
  cat "$dir"/sources-* >"$dir/sources.list"
  # Hooks of the system's apt configuration are for the system's state.
  printf '#clear APT::Update::Post-Invoke;\n#clear APT::Update::Post-Invoke-Success;\n' >"$dir/apt.conf"
  options=(-q -c "$dir/apt.conf" -o Dir::Etc::SourceList="$dir/sources.list" -o Dir::Etc::SourceParts="$dir/parts"
    -o Dir::State::Lists="$dir/lists" -o Dir::Cache="$dir/cache" -o APT::Sandbox::User="$(id -un)")
  apt-get "${options[@]}" update
}

# NAME=VERSION of the packages that are named and of those that they need and this machine lacks.
list_with_needs() {
  # Lines like: Inst NAME [INSTALLED VERSION] (VERSION SUITE [ARCHITECTURE])
  apt-get "${options[@]}" -s install --no-install-recommends --reinstall "$@" |
    sed -n 's/^Inst \([^ ]*\) \(\[[^]]*\] \)\?(\([^ ]*\) .*/\1=\3/p'
}

# Fetches NAME=VERSION... to folder $1 and unpacks them in its folder `root`.
unpack_packages() {
  local dir=$1 deb
  (cd "$dir" && apt-get "${options[@]}" download "${@:2}") || return
  for deb in "$dir"/*.deb; do dpkg-deb -x "$deb" "$dir/root" || return; done
}
