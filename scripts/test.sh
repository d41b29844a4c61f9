#!/usr/bin/env bash
# Installs what is missing, builds everything with warnings as errors, and runs every test; then the suite once more
# under the address and undefined-behaviour sanitizers, and the thread pool and the plans under the thread sanitizer.
# Where nvcc is, the CUDA code is compiled too; tests that need a GPU are skipped where there is none.
#   scripts/test.sh            what continuous integration runs: CUDA for compute capability 9.0a only
#   scripts/test.sh --quick    of that the first build and its tests only: no clang, no sanitizers
#   scripts/test.sh --long     CUDA for every architecture; plans of every batch and Lamina inside another project's build
#                              (LAMINA_TEST_LONG); clang's code and its tests; every CPU kernel's tests and the
#                              server under the thread sanitizer; a million runs; ARM under emulation if qemu is there
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mode=${1:-}
case $mode in
  '' | --quick | --long) ;;
  *)
    sed -n '2,/^set /{s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
    [ "$mode" = --help ] && exit 0
    exit 2
    ;;
esac

scripts/install-deps.sh --with-tests
source scripts/build.sh
scripts/check-format.sh
scripts/check-layout.py
scripts/check-layout.py --self-test

preset=ci
if [ "$mode" = --long ]; then
  preset=release
  export LAMINA_TEST_LONG=1
fi
configure "$preset"
build "$preset"
scripts/check-spills.py "build/$preset"
ctest --preset "$preset" -j "$(nproc)"
scripts/test_python.sh "$preset"
if [ "$mode" = --quick ]; then
  exit 0
fi

if [ "$mode" = --long ]; then
  configure clang -DCMAKE_CXX_FLAGS_RELEASE='-O3 -DNDEBUG'
  build clang
  ctest --preset clang -j "$(nproc)"
else
  configure clang -DCMAKE_CXX_FLAGS_RELEASE='-O3 -DNDEBUG -fsyntax-only'  # its warnings alone
  build clang --target lamina_objects
fi

configure asan
build asan
ctest --preset asan -j "$(nproc)"

configure tsan
if [ "$mode" = --long ]; then
  build tsan --target base_test cpu_test plan_test pool_test
  build/tsan/bin/cpu_test --gtest_brief=1
else
  build tsan --target base_test plan_test pool_test
fi
ctest --preset tsan -R 'ThreadPool|Plan|PoolFaults' -j "$(nproc)"

if [ "$mode" = --long ]; then
  build tsan --target fuzz_replay
  ctest --preset tsan -R serve_threads

  if command -v qemu-aarch64 aarch64-linux-gnu-g++ >/dev/null; then
    scripts/test-aarch64.sh
  else
    echo "qemu-aarch64 or aarch64-linux-gnu-g++ is not here: the kernels for ARM were not tested"
  fi
fi
echo "All tests passed."
