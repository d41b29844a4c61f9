#!/usr/bin/env bash
# Installs what is missing, builds everything with warnings as errors, and runs every test; then the suite once more
# under the address and undefined-behaviour sanitizers, and the thread pool and the plans under the thread sanitizer.
# Where nvcc is, all CUDA code is compiled for every architecture; tests that need a GPU are skipped where there is none.
#   scripts/test.sh [--quick]        (--quick: the release build only)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/install-deps.sh --with-tests
source scripts/build.sh
scripts/check-format.sh

configure release
cmake --build --preset release
ctest --preset release -j "$(nproc)"
if [ "${1:-}" = "--quick" ]; then
  exit 0
fi

configure asan
cmake --build --preset asan
ctest --preset asan -j "$(nproc)"

configure tsan
cmake --build --preset tsan --target base_test cpu_test plan_test
ctest --preset tsan -R 'ThreadPool|Plan' -j "$(nproc)"
echo "All tests passed."
