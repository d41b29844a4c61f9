#!/usr/bin/env bash
# Fuzzes every target at the same time, from corpus/ beside this script. Needs lamina_fuzz and nothing else: it runs
# where no compiler is.
#   run.sh SECONDS OUTDIR [JOBS [TARGET...]]
# JOBS processes (by default one for each core), shared out to the targets; at least one each. Writes OUTDIR/summary,
# a line for each target: target, executions, seconds, crashes, coverage (edges). What crashed, hung or took too much
# memory is in OUTDIR/TARGET/, its report in OUTDIR/TARGET.log; the corpus as it grew in OUTDIR/corpus/TARGET.
# Exits with 1 if there were crashes.
set -uo pipefail
usage() {
  sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
  exit "$1"
}
[ "${1:-}" = --help ] && usage 0
[ $# -ge 2 ] || usage 2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
seconds=$1 out=$2 jobs=${3:-$(nproc)}
shift $(($# < 3 ? $# : 3))
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for corpus in "$here"/corpus/*/; do targets+=("$(basename "$corpus")"); done
fi
fuzzer=${LAMINA_FUZZ:-$here/lamina_fuzz}
mkdir -p "$out"
out=$(cd "$out" && pwd)

# A second for each input, and memory in proportion to it: what a target takes beyond is a fault.
limits=(-timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=256 -len_control=50)
export ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=0:quarantine_size_mb=16
export UBSAN_OPTIONS=print_stacktrace=1

fuzz() {  # fuzz TARGET PROCESSES
  local target=$1 processes=$2
  mkdir -p "$out/$target" "$out/corpus/$target"
  cd "$out/$target" || return
  "$fuzzer" "$target" -fork="$processes" -ignore_crashes=1 -ignore_timeouts=1 -ignore_ooms=1 -max_total_time="$seconds" \
    -artifact_prefix="$out/$target/" -dict="$here/dictionaries/$target.dict" "${limits[@]}" \
    "$out/corpus/$target" "$here/corpus/$target" >"$out/$target.log" 2>&1
}

began=$(date +%s)
count=${#targets[@]}
for i in "${!targets[@]}"; do
  share=$((jobs * (i + 1) / count - jobs * i / count))
  fuzz "${targets[i]}" $((share > 0 ? share : 1)) &
done
wait
took=$(($(date +%s) - began))

status=0
printf '%-12s %12s %8s %8s %9s\n' target executions seconds crashes coverage | tee "$out/summary"
for target in "${targets[@]}"; do
  last=$(grep -E '^#[0-9]+: cov: ' "$out/$target.log" | tail -n 1)
  executions=$(sed -E 's/^#([0-9]+).*/\1/' <<<"$last")
  coverage=$(sed -E 's/.* cov: ([0-9]+).*/\1/' <<<"$last")
  crashes=$(find "$out/$target" -maxdepth 1 \( -name 'crash-*' -o -name 'timeout-*' -o -name 'oom-*' -o -name 'leak-*' \) | wc -l)
  [ "$crashes" -eq 0 ] && [ -n "$executions" ] || status=1
  printf '%-12s %12s %8s %8s %9s\n' "$target" "${executions:-none}" "$took" "$crashes" "${coverage:-none}" | tee -a "$out/summary"
done
exit $status
