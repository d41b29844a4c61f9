#!/usr/bin/env bash
# Runs tests that between them launch every family of kernels, on small shapes, under compute-sanitizer's four tools.
#   scripts/gpu/sanitize.sh [PROGRAM]     the tests; build/hopper/bin/cuda_test
#     --tools LIST      of racecheck,memcheck,synccheck,initcheck (all)
#     --filter FILTER   gtest's, in place of the one in this script
#     --jobs N          tests at the same time (12: more wait for their slice of the GPU's time)
#     --seconds S       after which nothing more is waited for (600)
#     --logs DIR        where the output of every test is left (build/sanitize)
# Says at the end what each tool found in which test, and which tests had no time. Exits with 1 if a tool found something
# or a test failed, with 3 if something had no time and the rest was clean. Needs compute-sanitizer, and a GPU.
# docs/inside/reliability.md says what the tools do not see.
set -euo pipefail

usage() {
  sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
  exit "$1"
}
tools=racecheck,memcheck,synccheck,initcheck filter='' jobs=12 seconds=600 logs=build/sanitize
program=build/hopper/bin/cuda_test
while [ $# -gt 0 ]; do
  case $1 in
    --help) usage 0 ;;
    --tools | --filter | --jobs | --seconds | --logs)
      [ $# -ge 2 ] || usage 2
      declare "${1#--}=$2"
      shift
      ;;
    -*) usage 2 ;;
    *) program=$1 ;;
  esac
  shift
done
command -v compute-sanitizer >/dev/null || { echo 'compute-sanitizer is not in PATH' >&2; exit 2; }
[ -x "$program" ] || { echo "there is no $program: cmake --build build/hopper --target cuda_test" >&2; exit 2; }

# Every row of every table, on this device and as if it were of 8.0; then what that does not reach: every tile and way to
# share it out, layers that overlap, what is exact where a fast path steps aside, slices, whole networks.
rows='Tables/EveryRow.IsRightOnThem/*_sm90:Tables/EveryRow.IsRightOnThem/*_sm80'
others=$(tr -d ' \n' <<<'
  ChannelsLast.EveryTileHoweverShared: ChannelsLast.SumsOfManyTiles: ChannelsLast.LayersOverlap*: ChannelsLastScaled.*:
  LinearStream.EveryTile*: LinearStream.LayersOverlap*: Mma.EveryTile: Precisions/FirstLayer.WildlyMixedMagnitudes/fp32_f32:
  Precisions/FirstLayer.WildlyMixedMagnitudes/tf32_f32_nhwc: Cuda/CudaLayers.NetworksAgree*/0: Cuda/CudaJoin.*/0:
  Cuda/CudaStrides.*/0')

check() { # TOOL TEST: its output and exit status become files
  local log=$LOGS/$1/${2//\//_} left=$((DEADLINE - $(date +%s))) options=()
  [ "$left" -gt 0 ] || { echo 124 >"$log.status"; : >"$log.log"; return; }
  case $1 in
    memcheck) options=(--leak-check no) ;;
    racecheck) options=(--racecheck-report analysis) ;;
  esac
  local status=0
  timeout -k 5 "$left" compute-sanitizer --tool "$1" "${options[@]}" --error-exitcode 86 --print-limit 20 \
    "$PROGRAM" --gtest_filter="$2" >"$log.log" 2>&1 || status=$?
  echo "$status" >"$log.status"
}
export -f check
export LOGS=$logs PROGRAM=$program LAMINA_TEST_REDUCED=1 DEADLINE=$(($(date +%s) + seconds))

rm -rf "$logs"
list() { "$program" --gtest_list_tests --gtest_filter="$1" | awk '/^[^ ]/ { suite = $1 } /^ / { print suite $1 }'; }
mapfile -t tests < <(if [ -n "$filter" ]; then list "$filter"; else list "$rows" && list "$others"; fi)
[ ${#tests[@]} -gt 0 ] || { echo "no test of $program matches $filter" >&2; exit 2; }
for tool in ${tools//,/ }; do mkdir -p "$logs/$tool"; done
for test in "${tests[@]}"; do
  for tool in ${tools//,/ }; do printf '%s %s\n' "$tool" "$test"; done
done | xargs -P "$jobs" -L 1 bash -c 'check "$@"' check

# A tool's own words begin with "=========".
bad=0 late=0
for tool in ${tools//,/ }; do
  clean=0 skipped=0 unfinished=() found=()
  for test in "${tests[@]}"; do
    log=$logs/$tool/${test//\//_}
    status=$(<"$log.status")
    words=$(grep -E '^=========' "$log.log" |
      grep -vE 'COMPUTE-SANITIZER$|SUMMARY: 0 (errors|hazards)|Target application returned an error' || true)
    if [ -n "$words" ]; then
      found+=("$test: $(grep -vE '^=========  ' <<<"$words" | head -1 | cut -c11-240)")
    elif [ "$status" = 124 ] || [ "$status" = 137 ]; then
      unfinished+=("$test")
    elif [ "$status" != 0 ]; then
      found+=("$test: exit status $status, $(grep -E 'FAILED|Failure|rror' "$log.log" | head -1 | cut -c1-200)")
    elif grep -q '\[  SKIPPED \]' "$log.log"; then
      skipped=$((skipped + 1))
    else
      clean=$((clean + 1))
    fi
  done
  echo "$tool: $clean tests clean, $skipped skipped, ${#found[@]} with something, ${#unfinished[@]} without time"
  [ ${#found[@]} -eq 0 ] || printf '  %s\n' "${found[@]}"
  [ ${#unfinished[@]} -eq 0 ] || printf '  no time: %s\n' "${unfinished[*]}"
  [ ${#found[@]} -eq 0 ] || bad=1
  [ ${#unfinished[@]} -eq 0 ] || late=1
done
[ "$bad" = 0 ] || exit 1
[ "$late" = 0 ] || exit 3
