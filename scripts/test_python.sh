#!/usr/bin/env bash
# Builds the wheel of the Python package from what is compiled in build/PRESET, installs it beside the tools that build and
# test it, in build/python, and runs its tests and mypy. Says so and ends well where Python 3.11 with venv is not there or
# PyPI out of reach.
#   scripts/test_python.sh [PRESET]    ci if none is given; it has to be configured. With asan the tests run under the
#                                      address and undefined-behaviour sanitizers
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/build.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=${1:-ci}

skip() {
  echo "The Python package was not tested: $1"
  exit 0
}

python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || skip "it needs Python 3.11 or later"
python3 -c 'import os, sys, sysconfig as s; sys.exit(not os.path.exists(s.get_path("include") + "/Python.h"))' ||
  skip "Python's headers are not here (python3-dev)"
root=build/python
tools=$root/tools
[ -x $tools/bin/python ] || python3 -m venv $tools >/dev/null 2>&1 || { rm -rf $tools; skip "python3 has no venv (python3-venv)"; }
pip=(-q --disable-pip-version-check --retries 1 --timeout 10)
# Stubs are made of the new module, by the next build of the preset too, and not of an old package.
forget_lamina() { $tools/bin/pip uninstall -q -y lamina 2>/dev/null || true; }
trap forget_lamina EXIT
get_tools() {
  { $tools/bin/pip install "${pip[@]}" --require-hashes -r scripts/wheel/build.txt &&
    $tools/bin/pip install "${pip[@]}" mypy numpy typing_extensions pytest pillow pillow-heif; } >/dev/null 2>&1 || skip "PyPI is out of reach"
}

# The build tree's own settings, not those of pyproject.toml, or all of it would be compiled again; but without
# lamina serve, as `pip install .` is: what is linked is what users get.
build_wheel() {
  local settings=(-Cbuild-dir="build/$preset") cuda name value
  grep -q '^rule CUDA_COMPILER' "build/$preset/CMakeFiles/rules.ninja" && cuda=ON || cuda=OFF
  settings+=("-Ccmake.define.LAMINA_CUDA=$cuda")
  for name in HEIF TIFF; do  # which a wheel is made without unless it is told
    ! grep -q "^LAMINA_${name}_LIBRARY:[A-Z]*=/" "build/$preset/CMakeCache.txt" ||
      settings+=("-Ccmake.define.LAMINA_$name=ON")
  done
  for name in LAMINA_TESTS LAMINA_NATIVE CMAKE_CUDA_ARCHITECTURES; do
    value=$(sed -n "s/^$name:[A-Z]*=//p" "build/$preset/CMakeCache.txt")
    [ -z "$value" ] || settings+=("-Ccmake.define.$name=$value")
  done
  rm -rf $root/wheel
  forget_lamina
  PATH=$PWD/$tools/bin:$PATH $tools/bin/pip wheel "${pip[@]}" --no-build-isolation --no-deps --wheel-dir $root/wheel \
    "${settings[@]}" .
}

install_wheel() {
  $tools/bin/pip install "${pip[@]}" --force-reinstall --no-deps $root/wheel/lamina-*.whl
  $tools/bin/pip check
}

run_tests() {
  PATH=$PWD/$tools/bin:$PATH $tools/bin/python -m pytest python/tests
}

# No wheel: the stubs of one are made by importing the module.
build_sanitized() {
  configure asan -DLAMINA_PYTHON=ON "-DPython_EXECUTABLE=$PWD/$tools/bin/python"
  build asan --target lamina_core
  rm -rf $root/asan
  mkdir -p $root/asan
  cp -r python/lamina $root/asan
  cp build/asan/python/_core*.so weights/imagenet_classes.txt $root/asan/lamina
}

# Python itself is not instrumented: the sanitizer is loaded first all the same, and what Python keeps is no leak.
run_sanitized() {
  LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libstdc++.so)" PYTHONPATH=$root/asan \
    PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
    $tools/bin/python -m pytest -p no:cacheprovider python/tests
}

stage "Python: tools" get_tools
if [ "$preset" = asan ]; then
  stage "Python: module under asan" build_sanitized
  stage "Python: tests under asan" run_sanitized
else
  stage "Python: wheel" build_wheel
  stage "Python: installing" install_wheel
  stage "Python: tests" run_tests
  stage "Python: types" $tools/bin/python -m mypy -p lamina
fi
finish "The Python package passed"
