#!/usr/bin/env bash
# Whether liblamina_c shows programs what it did: its symbols and their versions, and the layout of its structs. What is
# in abi.txt stays there; what is appended is added by LAMINA_UPDATE_GOLDEN=1.
#   abi_test.sh LIBRARY C_TEST
set -euo pipefail
golden=$(dirname "${BASH_SOURCE[0]}")/abi.txt
found=$(nm -D --defined-only "$1" | awk '$2 != "A" { print "symbol " $3 }' | LC_ALL=C sort; "$2" --abi)
if [ -n "${LAMINA_UPDATE_GOLDEN:-}" ]; then
  printf '%s\n' "$found" >"$golden"
fi
diff -u "$golden" - <<<"$found"
