#!/usr/bin/env bash
# Builds the wheel of the Python package from what is compiled in build/PRESET, installs it into a fresh environment and
# runs its tests and mypy there. Says so and ends well where Python 3.11 with venv is not there or PyPI out of reach.
#   scripts/test_python.sh [PRESET]    ci if none is given; it has to be configured
set -euo pipefail
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
$tools/bin/pip install "${pip[@]}" "scikit-build-core>=1.1" "nanobind>=3.1,<4" "nanobind-backend>=1,<2" mypy numpy \
  typing_extensions >/dev/null 2>&1 || skip "PyPI is out of reach"

# The build tree's own settings, not those of pyproject.toml, or all of it would be compiled again.
settings=(-Cbuild-dir="build/$preset")
grep -q '^rule CUDA_COMPILER' "build/$preset/CMakeFiles/rules.ninja" && cuda=ON || cuda=OFF
settings+=("-Ccmake.define.LAMINA_CUDA=$cuda")
for name in LAMINA_TESTS LAMINA_SERVE LAMINA_NATIVE CMAKE_CUDA_ARCHITECTURES; do
  value=$(sed -n "s/^$name:[A-Z]*=//p" "build/$preset/CMakeCache.txt")
  [ -z "$value" ] || settings+=("-Ccmake.define.$name=$value")
done
rm -rf $root/wheel $root/venv
PATH=$PWD/$tools/bin:$PATH $tools/bin/pip wheel "${pip[@]}" --no-build-isolation --no-deps --wheel-dir $root/wheel \
  "${settings[@]}" .
python3 -m venv $root/venv
$root/venv/bin/pip install "${pip[@]}" $root/wheel/lamina-*.whl pytest
PATH=$PWD/$root/venv/bin:$PATH $root/venv/bin/python -m pytest python/tests
$tools/bin/python -m mypy --python-executable $root/venv/bin/python -p lamina
