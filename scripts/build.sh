# Sourced by the other scripts. Who sources it before going anywhere answers --help with the comment that it begins with.
case ${1:-} in
  -h | --help) [ ${#BASH_SOURCE[@]} -eq 1 ] || { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "${BASH_SOURCE[1]}"; exit 0; } ;;
esac

# As many jobs as there are cores (ninja would begin two more), unless who builds says otherwise; and ccache, if it is there.
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-ccache} CMAKE_CUDA_COMPILER_LAUNCHER=${CMAKE_CUDA_COMPILER_LAUNCHER-ccache}
fi

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

# configure_here [OPTION...]: build/here, for the processor and the GPU that are here, and no room that the demo does not
# use. What is for every machine (the preset demo, from which one installs) takes half as long again.
configure_here() {
  configure demo -B build/here -DLAMINA_CUDA=AUTO -DCMAKE_CUDA_ARCHITECTURES=native -DLAMINA_NATIVE=ON \
    -DLAMINA_NATIVE_ALONE=ON -DLAMINA_C=OFF -DLAMINA_DETECT=OFF -DLAMINA_QUANTIZE=OFF -DLAMINA_INSTALL=OFF "$@"
}

# build PRESET [OPTION...]: what it says stays in build.log too, for those who look for remarks in it.
build() {
  cmake --build --preset "$@" | tee "build/$1/build.log"
}

# profile FOLDER: the seconds that its last build took for each folder of sources, the dearest first, and, of CUDA, each
# source; what ran side by side counts in full, and what a compiler's cache gave counts as nothing.
profile() {
  awk -F'\t' 'NR > 1 && $4 ~ /\.o$/ { took[$4] = ($2 - $1) / 1000 }
    END {
      for (object in took) {
        name = object
        sub(/CMakeFiles\/[^\/]*\.dir\//, "", name)
        sub(/\.o$/, "", name)
        if (name ~ /\.cu$/) printf "%8.1f s  %s\n", took[object], name
        sub(/\/[^\/]*$/, "", name)
        folders[name] += took[object]
        all += took[object]
      }
      for (name in folders) printf "%8.1f s  %s/\n", folders[name], name
      printf "%8.1f s  together\n", all
    }' "$1/.ninja_log" | sort -rn
}

# scripts/build.sh --profile [FOLDER]    (default: build/release)
if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  [[ ${1:-} != @(-h|--help) ]] || { echo "usage: scripts/build.sh --profile [FOLDER]"; exit 0; }
  [ "${1:-}" = --profile ] || { echo "usage: scripts/build.sh --profile [FOLDER]" >&2; exit 2; }
  profile "${2:-build/release}"
fi
