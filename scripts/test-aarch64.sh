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

compile() {  # SOURCE OBJECT [FLAG...]
  local from=$1 to=$build/$2
  shift 2
  if [ "$to" -nt "$from" ]; then return; fi
  aarch64-linux-gnu-g++ -std=c++20 -O2 -I"$build/include" -I"$source/tests" "$@" -c "$from" -o "$to"
}
for name in conv2d_blocked conv2d_blocked_kernel conv2d_direct conv2d_eigen linear linear_kernel pool2d pool2d_kernel \
  thread_pool unfold; do
  compile "$source/framework/cpu/$name.cpp" "$name.o" -Wall -Wextra -Werror
done
for name in conv_geometry dtype; do
  compile "$source/framework/tensor/$name.cpp" "$name.o"
done
for name in conv2d_test linear_test pool2d_test; do
  compile "$source/tests/cpu/$name.cpp" "$name.o"
done
compile /usr/src/googletest/googletest/src/gtest-all.cc gtest-all.o -I/usr/src/googletest/googletest
compile /usr/src/googletest/googletest/src/gtest_main.cc gtest_main.o
aarch64-linux-gnu-g++ -static "$build"/*.o -o "$build/cpu_test" -pthread
qemu-aarch64 "$build/cpu_test" "$@"
