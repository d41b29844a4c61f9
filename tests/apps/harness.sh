# Sourced by the tests of the command: LAMINA and SOURCE_DIR are their arguments, the working directory is a fresh one.
set -uo pipefail
lamina=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
model=$source/weights/alexnet-conv1.safetensors
photo=$source/docs/images/chelsea.png
failures=0
reads_jpeg=$("$lamina" doctor 2>/dev/null | grep -c '^photographs: .*JPEG')  # 0 in a build without libjpeg

# expect CODE WORDS ARGUMENT...: runs lamina, expects that exit code, and WORDS (a pattern) in what it prints.
expect() {
  local code=$1 words=$2 output status
  shift 2
  output=$("$lamina" "$@" 2>&1)
  status=$?
  if [ "$status" -ne "$code" ] || ! grep -qE -- "$words" <<<"$output"; then
    printf 'lamina %s\n  expected exit code %s and "%s", got exit code %s and:\n%s\n' "$*" "$code" "$words" "$status" "$output"
    failures=$((failures + 1))
  fi
}

check() {  # check DESCRIPTION COMMAND...
  local what=$1
  shift
  if ! "$@"; then
    echo "failed: $what"
    failures=$((failures + 1))
  fi
}

finish() {
  if [ "$failures" -gt 0 ]; then
    echo "$failures checks failed"
    exit 1
  fi
  echo "all checks passed"
}
