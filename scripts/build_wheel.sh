#!/usr/bin/env bash
# Builds the source distribution and the wheel of the Python package into dist/, checks the wheel, and writes beside it
# what is in it (CycloneDX). One wheel serves every Python from 3.11 on. It needs what scripts/install-deps.sh installs,
# Python 3.11 or later, and PyPI, from which come the files that scripts/wheel names and no others.
#   scripts/build_wheel.sh           with nvcc for the GPUs of this machine; without CUDA where it has none
#   scripts/build_wheel.sh --cuda    for the GPUs of every machine, which takes long to compile
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

settings=()
case ${1:-} in
  '') ;;
  --cuda)
    settings=(-Ccmake.define.LAMINA_CUDA=ON)
    ;;
  *)
    sed -n '2,/^set /{s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
    [ "$1" = --help ] && exit 0
    exit 2
    ;;
esac

tools=build/python/wheel-tools
[ -x $tools/bin/python ] || python3 -m venv $tools
$tools/bin/pip install -q --disable-pip-version-check --require-hashes -r scripts/wheel/build.txt \
  -r scripts/wheel/tools.txt
rm -rf build/python/wheel
PATH=$PWD/$tools/bin:$PATH
python -m build --no-isolation --sdist --outdir dist .
python -m build --no-isolation --wheel --outdir build/python/wheel "${settings[@]}" .
# Takes libjpeg in, so that the wheel needs the C and C++ runtime alone.
auditwheel -v repair --wheel-dir dist build/python/wheel/*.whl
abi3audit --strict dist/lamina-*.whl
python scripts/wheel/write_sbom.py build/cp311-abi3-* >dist/lamina.cdx.json
ls -l dist
