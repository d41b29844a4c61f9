#!/usr/bin/env bash
# Builds Debian packages of the library for C, of what programs in C and C++ are built with, and of the command, for CPUs,
# into dist/, and installs what is missing for that, as scripts/demo.sh does; lintian looks at them where it is installed.
#   scripts/packages/build_deb.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../build.sh"
[ $# -eq 0 ] || { echo "build_deb.sh: expected no arguments, got $* (--help)" >&2; exit 2; }
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scripts/install-deps.sh --with-packages
build=build/deb
# A distribution's programs link its shared libraries.
shared=/usr/lib/$(gcc -print-multiarch)
cmake --preset demo -B $build -DCMAKE_INSTALL_PREFIX=/usr -DLAMINA_PACKAGES=ON -DLAMINA_CUDA=OFF \
  -DJPEG_LIBRARY_RELEASE="$shared/libjpeg.so" -DLAMINA_WEBP_LIBRARY="$shared/libwebp.so"
cmake --build $build
mkdir -p dist
rm -f dist/*.deb
cpack --config $build/CPackConfig.cmake -B $build/cpack >/dev/null
mv $build/cpack/*.deb dist/
# CPack has scripts call ldconfig, which the trigger in the package is for.
rm -rf $build/unpacked
dpkg-deb -R dist/liblamina-c1_*.deb $build/unpacked
rm $build/unpacked/DEBIAN/post*
dpkg-deb --root-owner-group -b $build/unpacked "$(echo dist/liblamina-c1_*.deb)" >/dev/null
if command -v lintian >/dev/null; then
  lintian --allow-root --fail-on error,warning dist/*.deb
fi
ls -l dist/*.deb
