#!/usr/bin/env bash
# Installs a build, then builds and runs the embedding example against it in an empty directory; or configures it with
# Lamina as a subproject, and builds it so too, which compiles the whole library, where LAMINA_TEST_LONG is set.
#   install_test.sh BUILD_DIR SOURCE_DIR package|subproject
set -euo pipefail
build=$1 source=$2 how=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
model=$source/weights/alexnet-conv1.safetensors
photo=$source/docs/images/chelsea.png

case $how in
  package)
    cmake --install "$build" --prefix "$work/prefix" >"$work/log"
    cp -r "$source/apps/embed" "$work/embed"
    cmake -S "$work/embed" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/prefix" >>"$work/log"
    [ -n "$(find "$work/prefix" -name LICENSE)" ]
    if [ -n "$(find "$work/prefix" -name lamina_c.h)" ]; then
      cp -r "$source/examples/c" "$work/c"
      cmake -S "$work/c" -B "$work/build_c" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" >>"$work/log"
      cmake --build "$work/build_c" >>"$work/log"
      "$work/build_c/classify" "$source/weights/digits.safetensors" "$source/weights/digits/7.png" | grep -q ' 7  seven'
    fi
    if command -v pkg-config >/dev/null; then
      PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name lamina.pc)")
      export PKG_CONFIG_PATH
      # shellcheck disable=SC2046
      c++ -std=c++20 -fsyntax-only "$source/examples/custom_layer/main.cpp" $(pkg-config --cflags lamina)
      # shellcheck disable=SC2046
      c++ -std=c++20 "$work/embed/main.cpp" $(pkg-config --cflags --libs lamina) -o "$work/by_pkg_config"
      LD_LIBRARY_PATH=$(pkg-config --variable=libdir lamina) "$work/by_pkg_config" "$model" "$photo"
      # shellcheck disable=SC2046
      [ ! -d "$work/c" ] || cc -std=c11 "$work/c/main.c" $(pkg-config --cflags --libs lamina_c) -o "$work/c_by_pkg_config"
    fi
    ;;
  subproject)
    mkdir "$work/embed"
    cp "$source/apps/embed/main.cpp" "$work/embed/"
    cat >"$work/embed/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES CXX)
include(GNUInstallDirs)
include(FetchContent)
FetchContent_Declare(lamina SOURCE_DIR "$source")
FetchContent_MakeAvailable(lamina)
add_executable(embed main.cpp)
target_link_libraries(embed PRIVATE lamina::lamina)
END
    # Without an option: optimised all the same, and CUDA, if at all, for the GPU that is here.
    cmake -S "$work/embed" -B "$work/default" -G Ninja >"$work/log"
    grep -- '^-- Lamina: optimised (-O2)' "$work/log"
    commands=$(ninja -C "$work/default" -t commands lamina)
    grep -qE -- ' -O2 .*unity_tensor' <<<"$commands"
    if nvidia-smi -L >/dev/null 2>&1; then
      grep -E -- '^-- Lamina: building with(out)? CUDA' "$work/log"
    else
      grep -- '^-- Lamina: building without CUDA' "$work/log"
    fi
    # Installed along with the project around it, the licence is Lamina's and not in the way of that project's own.
    cmake -S "$work/embed" -B "$work/installed" -G Ninja -DLAMINA_CUDA=OFF -DLAMINA_INSTALL=ON >"$work/log"
    grep -q 'share/doc/lamina' "$work/installed/_deps/lamina-build/cmake_install.cmake"
    # What README has people install runs on every CPU of the architecture.
    cmake --preset demo -S "$source" -B "$work/demo" -DLAMINA_CUDA=OFF >"$work/log"
    grep -q '"command"' "$work/demo/compile_commands.json"
    if grep -o -- ' -march=native.*' "$work/demo/compile_commands.json"; then
      exit 1
    fi
    # Built as a program under development would be.
    cmake -S "$work/embed" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DLAMINA_CUDA=OFF >"$work/log"
    if grep 'Lamina: optimised' "$work/log"; then
      exit 1
    fi
    ninja -C "$work/build" -n embed >"$work/log"
    [ -n "${LAMINA_TEST_LONG:-}" ] || exit 0
    ;;
esac
cmake --build "$work/build" --target embed >>"$work/log" || { cat "$work/log"; exit 1; }

output=$("$work/build/embed" "$model" "$photo")
echo "$output"
[[ $output == *"feature maps [1, 96, 55, 55], strongest activation "* ]]

# docs/embedding.md has C++ programs include it.
[ "$how" != package ] || [ -n "$(find "$work/prefix" -name named_preprocess.h)" ]

# With detectors, where the build has them.
if [ "$how" = package ] && [ -n "$(find "$work/prefix" -name detector.h)" ]; then
  cmake --build "$work/build" --target embed_detect >>"$work/log" || { cat "$work/log"; exit 1; }
  "$work/build/embed_detect" "$source/tests/golden/detect/raw.onnx" "$photo" | grep -E '^(cat|dog) 0\.[0-9]+ at '
fi

# A user's mistake is one line and exit code 1.
if error=$("$work/build/embed" "$model" "$work/missing.png" 2>&1); then
  echo "expected a missing photograph to fail"
  exit 1
fi
[[ $error == "embed: "*missing.png* ]]
