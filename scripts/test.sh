#!/usr/bin/env bash
# Installs what is missing, builds everything with warnings as errors, and runs every test, what the documents tell to
# type and the Python package. Where nvcc is, the CUDA code is compiled too; tests that need a GPU are skipped where
# there is none.
#   scripts/test.sh             one build, every test: CUDA for compute capability 9.0a only
#   scripts/test.sh --sanitize  clang's warnings; the suite but cpu_test under the address and undefined-behaviour
#                               sanitizers, and the thread pool and the plans under the thread sanitizer
#   scripts/test.sh --long      both, cpu_test too, and: CUDA for every architecture; what documents tell to type that
#                               compiles Lamina; plans of every batch and Lamina inside another project's build (LAMINA_TEST_LONG); clang's
#                               code and its tests; every CPU kernel's tests under the thread sanitizer, the server's under
#                               both; the Python package under the address sanitizer; a million runs; a build without
#                               each option; ARM under emulation if qemu is there
# Continuous integration runs the first and the second.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mode=${1:-}
case $mode in
  '' | --sanitize | --long) ;;
  *)
    sed -n '2,/^set /{s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
    [ "$mode" = --help ] && exit 0
    exit 2
    ;;
esac

source scripts/build.sh
stage "packages" scripts/install-deps.sh --with-tests

# tests PRESET [OPTION...]
tests() {
  ctest --preset "$@" -j "$(nproc)"
}

# server PRESET: the tests of `lamina serve`, where that is all there is of the command
server() {
  for test in serve http; do python3 "tests/apps/${test}_test.py" "$PWD/build/$1/bin/serve_alone" "$PWD"; done
}

# alone PRESET: what the last commits changed of the library, each source by itself as a build without LAMINA_UNITY has
# it, where nothing that another source includes is there already. (Objects of the command wait for the whole library.)
alone() {
  local folder=build/alone changed known
  configure "$1" -B $folder -DLAMINA_UNITY=OFF -DLAMINA_TESTS=OFF -DCMAKE_CXX_FLAGS_RELEASE=-fsyntax-only \
    -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
  changed=$(git log -n 20 --name-only --format= -- 'framework/*.cpp' | awk 'count < 48 && !seen[$0]++ { print; ++count }') ||
    return 0 # no clone: nobody knows what changed
  known=$(sed -n "s|^  \"file\": \"$PWD/\(.*\)\",\?|\1|p" $folder/compile_commands.json)
  { grep -Fxf <(echo "$known") <<<"$changed" || true; } | sed "s|.*|$PWD/&^|" | xargs -r cmake --build $folder --
}

preset=ci
if [ "$mode" = --long ]; then
  preset=release
  export LAMINA_TEST_LONG=1
fi
if [ "$mode" != --sanitize ]; then
  stage "formatting" scripts/check-format.sh
  stage "layout" scripts/check-layout.py
  stage "layout's own test" scripts/check-layout.py --self-test
  # A process for each of 2,400 tests would start for a minute in all.
  stage "configuring $preset" configure "$preset" -DLAMINA_TESTS_BY_PROGRAM=ON
  stage "compiling $preset" build "$preset"
  stage "registers and local memory of kernels" scripts/check-spills.py "build/$preset"
  [ "$mode" = --long ] || stage "sources by themselves" alone "$preset"
  stage "tests" tests "$preset"
  stage "what documents tell to type" scripts/docs/test_docs.py "build/$preset" ${LAMINA_TEST_LONG:+--long}
  stage "Python package" scripts/test_python.sh "$preset"
fi
if [ -z "$mode" ]; then
  finish "All tests passed"
  exit 0
fi

# Without --long the kernels of a CPU are compiled for the instructions that this one has, and their own tests, which ask
# for others, are left to the build before, where they run in guarded memory.
here=() watched=()
[ "$mode" = --long ] || here=(-DLAMINA_NATIVE=ON -DLAMINA_NATIVE_ALONE=ON) watched=(-E '^cpu_test|embed')

if [ "$mode" = --long ]; then
  stage "configuring clang" configure clang -DCMAKE_CXX_FLAGS_RELEASE='-O3 -DNDEBUG'
  stage "compiling clang" build clang
  stage "tests by clang" tests clang
else
  stage "configuring clang" configure clang "${here[@]}" -DLAMINA_UNITY=ON -DCMAKE_CXX_FLAGS_RELEASE='-O3 -DNDEBUG -fsyntax-only'
  stage "clang's warnings" build clang --target lamina_objects lamina_small
fi

stage "configuring asan" configure asan "${here[@]}"
stage "compiling asan" build asan
stage "tests under asan" tests asan "${watched[@]}"
if [ "$mode" = --long ]; then
  stage "Python package under asan" scripts/test_python.sh asan
  stage "compiling the server under asan" build asan --target serve_alone
  stage "the server under asan" server asan
fi

# Of tests with threads, what they link; rooms that they do not use are left out.
programs=(base_test plan_test pool_test) unused=(-DLAMINA_ONNX=OFF -DLAMINA_QUANTIZE=OFF -DLAMINA_DETECT=OFF)
[ "$mode" = --long ] && unused=()
stage "configuring tsan" configure tsan "${here[@]}" "${unused[@]}"
if [ "$mode" = --long ]; then
  programs+=(cpu_test fuzz_replay serve_alone)
fi
stage "compiling tsan" build tsan --target "${programs[@]}"
stage "tests under tsan" tests tsan -R 'ThreadPool|Plan|PoolFaults'

# without OPTION: what is linked in a build that leaves it out, and its tests of what it draws and reads.
without() {
  local folder=build/without-$1 targets=(images_test apps_test fuzz_replay)
  configure cpu -B "$folder" "-DLAMINA_$1=OFF" -DLAMINA_UNITY=ON
  [ "$1" = APPS ] || targets+=(lamina_command)
  cmake --build "$folder" --target "${targets[@]}"
  for program in images_test apps_test; do "$folder/bin/$program" --gtest_brief=1; done
  "$folder/bin/fuzz_replay" tests/fuzz/corpus tests/fuzz/reproducers
  rm -rf "$folder"
}

if [ "$mode" = --long ]; then
  for option in SERVE APPS DETECT QUANTIZE ONNX LIBJPEG WEBP HEIF TIFF; do stage "without $option" without "$option"; done
  stage "kernels under tsan" build/tsan/bin/cpu_test --gtest_brief=1
  stage "answers under tsan" tests tsan -R serve_threads
  stage "the server under tsan" server tsan

  if command -v qemu-aarch64 aarch64-linux-gnu-g++ >/dev/null; then
    stage "ARM under emulation" scripts/test-aarch64.sh
  else
    echo "qemu-aarch64 or aarch64-linux-gnu-g++ is not here: the kernels for ARM were not tested"
  fi
fi
finish "All tests passed"
