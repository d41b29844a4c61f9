#!/usr/bin/env bash
# Whether what was built is hardened as cmake/LaminaHardening.cmake says.
#   hardening_test.sh PROGRAM --reading OBJECT... --others OBJECT...
set -euo pipefail
command -v readelf >/dev/null || { echo "readelf is not here"; exit 77; }

program=$1
shift
declare -A rooms=([reading]='' [others]='')
for argument in "$@"; do
  case $argument in
    --*) room=${argument#--} ;;
    *) rooms[$room]+="$argument " ;;
  esac
done

failed=0
expect() {  # expect WHAT COMMAND...
  local what=$1
  shift
  if ! "$@"; then
    echo "FAILED: $what"
    failed=1
  fi
}
has() {  # has PATTERN TEXT
  grep -qE -- "$1" <<<"$2"
}
lacks() {
  ! has "$@"
}
all_have() {  # all_have PATTERN OBJECT...: each of them
  local pattern=$1 object
  shift
  for object in "$@"; do
    has "$pattern" "$(readelf -nW "$object" 2>/dev/null)" || { echo "$object has not"; return 1; }
  done
}

expect "full RELRO: a segment" has GNU_RELRO "$(readelf -lW "$program")"
expect "full RELRO: bound at once" has 'BIND_NOW|FLAGS_1.* NOW' "$(readelf -dW "$program")"
if [ "$(uname -m)" = x86_64 ]; then
  # Of a program the linker keeps the note only if all that is in it has it, also what others compiled.
  expect "indirect jumps land on endbr64" all_have 'x86 feature: .*IBT' ${rooms[reading]} ${rooms[others]}
fi
reading=$(readelf -sW ${rooms[reading]})
others=$(readelf -sW ${rooms[others]})
expect "arrays on the stack are watched" has '__stack_chk_fail' "$reading"
expect "what is copied fits" has 'UND __[a-z]+_chk$' "$reading"
expect "indices are checked" has '__glibcxx_assert_fail' "$reading"
expect "but not in kernels" lacks '__glibcxx_assert_fail' "$others"
exit $failed
