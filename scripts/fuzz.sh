#!/usr/bin/env bash
# Fuzzes what Lamina does not trust, by libFuzzer, under the address and undefined-behaviour sanitizers. Needs clang.
#   scripts/fuzz.sh [TARGET...] [--seconds S]    S seconds (60) for each target, one after the other; all targets
#   scripts/fuzz.sh [TARGET...] --keep DIR       adds to tests/fuzz/corpus what of DIR/corpus, as a run left it, reaches more
#   scripts/fuzz.sh --carry DIR                  writes to DIR what another machine needs to fuzz: DIR/run.sh says how
# Writes build/fuzz/found: what crashed, hung or took too much memory, for each target; counts. Exits with 1 if anything did.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
  exit "$1"
}
seconds=60 keep='' carry='' targets=()
while [ $# -gt 0 ]; do
  case $1 in
    --help) usage 0 ;;
    --seconds | --keep | --carry)
      [ $# -ge 2 ] || usage 2
      declare "${1#--}=$2"
      shift
      ;;
    -*) usage 2 ;;
    *)
      [ -d "tests/fuzz/corpus/$1" ] || { echo "there is no target $1: $(ls tests/fuzz/corpus | tr '\n' ' ')" >&2; exit 2; }
      targets+=("$1")
      ;;
  esac
  shift
done
if [ ${#targets[@]} -eq 0 ]; then
  for corpus in tests/fuzz/corpus/*/; do targets+=("$(basename "$corpus")"); done
fi

scripts/install-deps.sh --with-tests --with-fuzzing
source scripts/build.sh
stage "configuring" configure fuzz
stage "compiling" build fuzz --target lamina_fuzz
fuzzer=$PWD/build/fuzz/bin/lamina_fuzz

if [ -n "$keep" ]; then
  for target in "${targets[@]}"; do
    "$fuzzer" "$target" -merge=1 "tests/fuzz/corpus/$target" "$keep/corpus/$target" 2>/dev/null
    echo "$target: $(find "tests/fuzz/corpus/$target" -type f | wc -l) inputs, $(du -sb "tests/fuzz/corpus/$target" | cut -f1) bytes"
  done
elif [ -n "$carry" ]; then
  mkdir -p "$carry"
  cp -r tests/fuzz/corpus tests/fuzz/dictionaries tests/fuzz/run.sh "$carry/"
  strip -o "$carry/lamina_fuzz" "$fuzzer"
  du -sh "$carry"
else
  status=0 found=$PWD/build/fuzz/found
  for target in "${targets[@]}"; do
    LAMINA_FUZZ=$fuzzer tests/fuzz/run.sh "$seconds" "$found" 1 "$target" || status=1
    mv "$found/summary" "$found/$target.summary"
  done
  exit $status
fi
