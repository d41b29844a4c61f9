#!/usr/bin/env bash
# Builds the source distribution and a wheel of the Python package into dist/, checks the wheel, and writes beside it
# what is in it (CycloneDX). One wheel serves every Python from 3.11 on, and systems with glibc 2.35 or later: Debian 12,
# Ubuntu 24.04, Fedora 37 and what came after them. It installs what is missing, as scripts/demo.sh does, and needs PyPI,
# from which come the files that scripts/wheel names and no others.
#   scripts/build_wheel.sh           for CPUs
#   scripts/build_wheel.sh --cuda    also for the GPUs of every machine, into dist/cuda/; takes long to compile; needs the
#                                    driver alone, and runs on the CPU where there is none
#   CMAKE_BUILD_PARALLEL_LEVEL=2 scripts/build_wheel.sh    two compilers at a time; otherwise as many as there are cores
#   LAMINA_ARCHITECTURES=90a-real scripts/build_wheel.sh --cuda      for these GPUs only
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/build.sh

settings=(-Ccmake.define.LAMINA_CUDA=OFF)
compiling=" (up to 15 minutes on two cores)"
kind=cpu dist=dist
case ${1:-} in
  '') ;;
  --cuda)
    kind=cuda dist=dist/cuda  # in a folder of its own: dist/*.whl is one wheel
    # Its name is another than the CPU's wheel's, and pip prefers it where both lie side by side.
    compiling=" (GPUs take long)"
    settings=(-Ccmake.define.LAMINA_CUDA=ON -Cwheel.build-tag=1cuda)
    [ -z "${LAMINA_ARCHITECTURES:-}" ] || settings+=(-Ccmake.define.CMAKE_CUDA_ARCHITECTURES="$LAMINA_ARCHITECTURES")
    # Kernels that are compressed harder: unpacked by the driver as they are loaded.
    ! nvcc --help 2>/dev/null | grep -q -- --compress-mode ||
      settings+=(-Ccmake.define.CMAKE_CUDA_FLAGS=--compress-mode=size)
    ;;
  *)
    sed -n '2,/^set /{s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
    [ "$1" = --help ] && exit 0
    exit 2
    ;;
esac
# All that the package has goes into a wheel for others. libheif would bring libx265, which is GPL; Python reads HEIC with
# pillow-heif.
for option in LIBJPEG WEBP SERVE; do settings+=("-Ccmake.define.LAMINA_$option=ON"); done
build=build/python/$kind
settings+=("-Cbuild-dir=$build")

stage "packages" scripts/install-deps.sh --with-python
tools=build/python/wheel-tools
[ -x $tools/bin/python ] || python3 -m venv $tools
stage "tools" $tools/bin/pip install -q --disable-pip-version-check --require-hashes -r scripts/wheel/build.txt \
  -r scripts/wheel/tools.txt
rm -rf build/python/wheel
PATH=$PWD/$tools/bin:$PATH
python -m build --no-isolation --sdist --outdir dist .
stage "compiling$compiling" python -m build --no-isolation --wheel --outdir build/python/wheel "${settings[@]}" .
# Takes libjpeg and libwebp in, so that the wheel needs the C and C++ runtime alone.
auditwheel repair --wheel-dir $dist build/python/wheel/*.whl
wheel=$(ls -t $dist/lamina-*.whl | head -n 1)
abi3audit --strict "$wheel"
python scripts/wheel/write_sbom.py "$build" >"${wheel%.whl}.cdx.json"
ls -l $dist
finish "$wheel is built"
echo "pip install $wheel"
