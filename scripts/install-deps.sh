#!/usr/bin/env bash
# Installs what Lamina needs to build, from the distribution. Does nothing where everything is there already.
#   scripts/install-deps.sh [--with-tests] [--with-fuzzing] [--with-python] [--with-packages]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/build.sh"

packages=(cmake ninja-build g++ libeigen3-dev nlohmann-json3-dev libstb-dev libhwy-dev libcli11-dev libfmt-dev libjpeg-dev
          libwebp-dev libheif-dev libtiff-dev libprotozero-dev libboost-dev zlib1g-dev)
for option in "$@"; do
  # Which clang the distribution has: its sanitizers are a package of that version.
  clang=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p' | head -n 1) || clang=
  case $option in
    --with-tests) packages+=(libgtest-dev python3 clang "libclang-rt-${clang:-14}-dev") ;;
    --with-fuzzing) packages+=(clang "libclang-rt-${clang:-14}-dev") ;;
    --with-python)  # what a wheel is built with, where the Python that runs has it not
      python3 -c 'import ensurepip, os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null ||
        packages+=(python3-dev python3-venv)
      ;;
    --with-packages) packages+=(file dpkg-dev) ;;  # what CPack asks which libraries are needed
    *)
      echo "install-deps.sh: there is no option $option (--help)" >&2
      exit 2
      ;;
  esac
done

if ! command -v apt-get >/dev/null 2>&1; then
  cat >&2 <<END
scripts/install-deps.sh knows apt (Debian 12, Ubuntu 24.04). Elsewhere install these yourself, then run cmake as
CONTRIBUTING.md shows:
  CMake 3.25 or later, Ninja, a C++20 compiler (g++ 12 or later, or clang 14 or later)
  Eigen 3.4, nlohmann-json 3.10, stb, Highway 1.0.3, CLI11, fmt; libjpeg-turbo, libwebp, libheif and libtiff
  (photographs), protozero (.onnx models), zlib (pictures, lamina serve) and Boost (lamina serve) are optional;
  GoogleTest for the tests
END
  # Not an error if somebody did: cmake names what is missing.
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  if [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
    missing+=("$package")
  fi
done
if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null 2>&1; then
    echo "Lamina needs these packages; ask an administrator to run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "Installing: ${missing[*]}"
"${as_root[@]}" apt-get update -qq
# Where libheif's decoders are packages of their own, it comes without any.
if [[ " ${missing[*]} " == *" libheif-dev "* ]] && apt-cache show libheif-plugin-libde265 >/dev/null 2>&1; then
  missing+=(libheif-plugin-libde265 libheif-plugin-dav1d)
fi
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
