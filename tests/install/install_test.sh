#!/usr/bin/env bash
# Installs a build, then builds and runs the embedding example against it in an empty directory, and once more with
# Lamina as a subproject.
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
    ;;
  subproject)
    mkdir "$work/embed"
    cp "$source/apps/embed/main.cpp" "$work/embed/"
    cat >"$work/embed/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES CXX)
include(FetchContent)
set(LAMINA_CUDA OFF)
FetchContent_Declare(lamina SOURCE_DIR "$source")
FetchContent_MakeAvailable(lamina)
add_executable(embed main.cpp)
target_link_libraries(embed PRIVATE lamina::lamina)
END
    cmake -S "$work/embed" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug >"$work/log"
    ;;
esac
cmake --build "$work/build" --target embed >>"$work/log" || { cat "$work/log"; exit 1; }

output=$("$work/build/embed" "$model" "$photo")
echo "$output"
[[ $output == *"feature maps [1, 96, 55, 55], strongest activation "* ]]

# A user's mistake is one line and exit code 1.
if error=$("$work/build/embed" "$model" "$work/missing.png" 2>&1); then
  echo "expected a missing photograph to fail"
  exit 1
fi
[[ $error == "embed: "*missing.png* ]]
