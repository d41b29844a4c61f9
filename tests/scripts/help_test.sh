#!/usr/bin/env bash
# Every script says what it does when it is asked, and does nothing else; a word that it does not know begins nothing.
#   help_test.sh SOURCE
set -euo pipefail
cd "$1"
failed=0
for script in scripts/*.sh scripts/*/*.sh; do
  said=$(timeout 20 bash "$script" --help 2>&1) || { echo "$script --help: exit code $?: $said"; failed=1; }
  grep -q "$(basename "$script")" <<<"$said" || { echo "$script --help does not say how it is called: $said"; failed=1; }
done
for script in packages/build_deb install-deps build_wheel demo; do
  [ "$script" = get_classifier ] && continue  # what it does not know is Python's
  ! said=$(timeout 20 bash "scripts/$script.sh" --nonsense 2>&1) || { echo "$script.sh --nonsense: $said"; failed=1; }
done
# As many compilers as cores, unless who builds says otherwise.
jobs='source scripts/build.sh; echo $CMAKE_BUILD_PARALLEL_LEVEL'
[ "$(env -u CMAKE_BUILD_PARALLEL_LEVEL bash -c "$jobs")/$(CMAKE_BUILD_PARALLEL_LEVEL=7 bash -c "$jobs")" = "$(nproc)/7" ] ||
  { echo "build.sh: expected $(nproc) jobs, and 7 where they are asked for"; failed=1; }
exit $failed
