#!/usr/bin/env bash
# Builds the CPU kernels and their tests for 64-bit ARM and runs them under emulation: the NEON kernels' tests where there
# is no ARM machine. Needs g++-aarch64-linux-gnu, qemu-user, libgtest-dev, libeigen3-dev and libhwy-dev.
#   scripts/test-aarch64.sh [BUILD_DIR [GTEST_ARGUMENT...]]
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${1:-$source/build/aarch64}
shift || true

for tool in aarch64-linux-gnu-g++ qemu-aarch64; do
  if ! command -v "$tool" >/dev/null 2>&1; then
    echo "scripts/test-aarch64.sh: $tool is missing: apt install g++-aarch64-linux-gnu qemu-user" >&2
    exit 1
  fi
done
mkdir -p "$build/include"
# The host's header-only libraries one by one: its /usr/include as a whole would hide the target's C library.
ln -sfn "$source/framework" "$build/include/lamina"
ln -sfn /usr/include/hwy "$build/include/hwy"
ln -sfn /usr/include/eigen3/Eigen "$build/include/Eigen"
ln -sfn /usr/include/gtest "$build/include/gtest"

compile() {  # SOURCE [FLAG...]
  local from=$1 to=$build/${1##"$source/"}.o
  shift
  mkdir -p "$(dirname "$to")"
  if [ ! "$to" -nt "$from" ]; then
    aarch64-linux-gnu-g++ -std=c++20 -O2 -I"$build/include" -I"$source/tests" "$@" -c "$from" -o "$to"
  fi
  objects+=("$to")
}

objects=()
for file in "$source"/framework/{cpu,kernel}/{,*/}*.cpp "$source/framework/base/thread_pool.cpp" \
  "$source/framework/tensor/dtype.cpp"; do
  compile "$file" -Wall -Wextra -Werror
done
rm -f "$build/kernels.a"
aarch64-linux-gnu-ar rc "$build/kernels.a" "${objects[@]}"  # of which the tests take what they need

objects=()
for file in "$source"/tests/cpu/*/*_test.cpp; do
  compile "$file"
done
compile /usr/src/googletest/googletest/src/gtest-all.cc -I/usr/src/googletest/googletest
compile /usr/src/googletest/googletest/src/gtest_main.cc -I/usr/src/googletest/googletest
aarch64-linux-gnu-g++ -static "${objects[@]}" "$build/kernels.a" -o "$build/cpu_test" -pthread
qemu-aarch64 "$build/cpu_test" "$@"
