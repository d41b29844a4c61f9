#!/usr/bin/env bash
# Manual pages and completions say what --help says.
#   manual_test.sh LAMINA SOURCE_DIR
set -euo pipefail
lamina=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ "$("$lamina" manual "$work")" = "wrote manual pages and completions for bash and zsh below $work" ]

for page in "$work"/man/man1/*.1; do
  name=$(basename "$page" .1)
  read -ra command <<<"${name//-/ }"
  "$lamina" "${command[@]:1}" --help >"$work/help"
  # One word for one thing: CONTRIBUTING.md has them.
  ! grep -HwiE 'director(y|ies)|standard input|int8|net|objects?|categor(y|ies)|float32' "$page" || exit 1
  # Every option and every command of the help begins an entry of the page.
  while read -r option; do
    grep -qF -- "\\fB${option//-/\\-}\\fR" "$page" || { echo "$name: $option is missing in its page"; exit 1; }
  done < <(grep -oE '^  (-h,)?--[a-z0-9-]+' "$work/help" | grep -oE -- '--[a-z0-9-]+'; sed -n '/^Subcommands:/,/^$/s/^  \([a-z0-9]*\) .*/\1/p' "$work/help")
  if command -v groff >/dev/null; then
    [ -z "$(groff -man -ww -Tutf8 "$page" 2>&1 >/dev/null)" ] || { echo "$name: groff complains"; exit 1; }
  fi
done
[ "$(find "$work/man" -name 'lamina-bench-*.1' | wc -l)" = 2 ]

cat >"$work/complete" <<'END_OF_BASH'
source "$1"
try() {  # try WORD... EXPECTED: what completes the last but one
  COMP_WORDS=("${@:1:$#-1}") COMP_CWORD=$(($# - 2))
  _lamina
  [ "${COMPREPLY[*]}" = "${*: -1}" ] || { echo "$*: got ${COMPREPLY[*]}"; exit 1; }
}
try lamina cla classify
try lamina bench conv conv2d
try lamina classify --strip --strip-prefix
try lamina classify --precision fp "fp32 fp16"
try lamina classify --linear-weights "" "f32 bf16 f16"
try lamina bench model --inp "--input-shape --inputs --input-format"
try lamina classify --model dig ""
try lamina classify pho ""
END_OF_BASH
"$lamina" completion bash | cmp - "$work/bash-completion/completions/lamina"
bash "$work/complete" "$work/bash-completion/completions/lamina"
if command -v zsh >/dev/null; then
  zsh -n "$work/zsh/vendor-completions/_lamina"
fi
"$lamina" completion zsh | cmp - "$work/zsh/vendor-completions/_lamina"
! "$lamina" completion fish 2>/dev/null
