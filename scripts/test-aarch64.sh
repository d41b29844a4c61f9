#!/usr/bin/env bash
# Builds the CPU kernels and their tests for 64-bit ARM and runs them under emulation: the NEON kernels' tests where there
# is no ARM machine. Needs g++-aarch64-linux-gnu, qemu-user, ninja-build, libgtest-dev, libeigen3-dev, nlohmann-json3-dev,
# libstb-dev and libhwy-dev.
#   scripts/test-aarch64.sh [BUILD_DIR [GTEST_ARGUMENT...]]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/build.sh"
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${1:-$source/build/aarch64}
shift || true

for tool in aarch64-linux-gnu-g++ qemu-aarch64 ninja; do
  if ! command -v "$tool" >/dev/null 2>&1; then
    echo "scripts/test-aarch64.sh: $tool is missing: apt install g++-aarch64-linux-gnu qemu-user ninja-build" >&2
    exit 1
  fi
done
mkdir -p "$build/include"
# The host's header-only libraries one by one: its /usr/include as a whole would hide the target's C library.
ln -sfn "$source/framework" "$build/include/lamina"
for library in hwy gtest nlohmann; do
  ln -sfn "/usr/include/$library" "$build/include/$library"
done
ln -sfn /usr/include/eigen3/Eigen "$build/include/Eigen"
ln -sfn /usr/include/stb "$build/include/stb"

# The rooms up to the kernels, of which the tests take what they need; pictures without the libraries that decode some.
codecs=(! -name jpeg_turbo.cpp ! -name webp.cpp ! -name heic.cpp ! -name tiff.cpp)
library=()
for room in base tensor images kernel cpu; do
  while read -r file; do library+=("$file"); done < <(find "$source/framework/$room" -name '*.cpp' "${codecs[@]}" | sort)
done
library+=("$source/framework/cuda/runtime/no_cuda.cpp")
tests=()
while read -r file; do tests+=("$file"); done < <(find "$source/tests/cpu" -name '*_test.cpp' | sort)
tests+=(/usr/src/googletest/googletest/src/gtest-all.cc /usr/src/googletest/googletest/src/gtest_main.cc)

objects=
rule() {  # RULE SOURCE...
  local file rule=$1
  shift
  objects=
  for file in "$@"; do
    echo "build ${file##"$source/"}.o: $rule $file"
    objects+=" ${file##"$source/"}.o"
  done
}
{
  cat <<END
compile = ${CXX_LAUNCHER:-} aarch64-linux-gnu-g++ -std=c++20 -O2 -Iinclude
rule kernel
  command = \$compile -Wall -Wextra -Werror -isystem include/stb -DLAMINA_VERSION='"test"' -MD -MF \$out.d -c \$in -o \$out
  depfile = \$out.d
  deps = gcc
rule test
  command = \$compile -I$source/tests -I/usr/src/googletest/googletest -MD -MF \$out.d -c \$in -o \$out
  depfile = \$out.d
  deps = gcc
rule archive
  command = rm -f \$out && aarch64-linux-gnu-ar rc \$out \$in
rule link
  command = aarch64-linux-gnu-g++ -static \$in -o \$out -pthread
END
  rule kernel "${library[@]}"
  echo "build kernels.a: archive$objects"
  rule test "${tests[@]}"
  echo "build cpu_test: link$objects kernels.a"
} >"$build/build.ninja"
ninja -C "$build" cpu_test
qemu-aarch64 "$build/cpu_test" "$@"
