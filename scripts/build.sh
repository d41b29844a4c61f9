# Sourced by the other scripts, from the root of the tree.

stages=()
# stage NAME COMMAND...: runs it, and says how long it took.
stage() {
  local name=$1 begin=$SECONDS
  shift
  echo "== $name ..."
  "$@"
  stages+=("== $name: $((SECONDS - begin)) s")
  echo "${stages[-1]}"
}

# finish TEXT: the stages once more, and their sum.
finish() {
  printf '%s\n' "${stages[@]}"
  echo "$1, in $((SECONDS / 60)) min $((SECONDS % 60)) s."
}

# configure PRESET [OPTION...]: runs cmake quietly; shows what it said if it fails.
configure() {
  local preset=$1 log
  shift
  log=$(mktemp)
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
