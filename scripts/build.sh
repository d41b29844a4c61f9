# Sourced by the other scripts, from the root of the tree.

# configure PRESET [OPTION...]: runs cmake quietly; shows what it said if it fails.
configure() {
  local preset=$1 log
  shift
  log=$(mktemp)
  echo "Building ($preset) ..."
  if ! cmake --preset "$preset" "$@" >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    return 1
  fi
  grep '^-- Lamina:' "$log" || true
  rm -f "$log"
}

# build PRESET [OPTION...]: what it says stays in build.log too, for those who look for remarks in it.
build() {
  cmake --build --preset "$@" | tee "build/$1/build.log"
}
