#!/usr/bin/env bash
# For a machine that has a GPU and no network, with Debian 12 or Ubuntu 24.04 and CUDA, CMake, ninja, Eigen, GoogleTest,
# nlohmann-json and CLI11 on it: the headers that Lamina needs besides.
#   scripts/gpu/dependencies.sh              on a machine with a network: leaves Debian packages in .carry/
#   . scripts/gpu/dependencies.sh --unpack   there, with .carry/ beside the sources: below /tmp/lamina-deps, where CMake
#                                            finds them; nothing of the system is touched
# There, as its compiler may warn of what this project's does not, and its libjpeg may be another than its header says:
#   cmake --preset release -DLAMINA_UNITY=ON -DLAMINA_WARNINGS_AS_ERRORS=OFF -DLAMINA_LIBJPEG=OFF
#   cmake --build --preset release && scripts/gpu/suite.py build/release
case ${1:-} in
  --unpack)
    for package in .carry/*.deb; do dpkg -x "$package" /tmp/lamina-deps; done
    export CMAKE_PREFIX_PATH=/tmp/lamina-deps/usr
    ;;
  '')
    cd "$(dirname "${BASH_SOURCE[0]}")/../.." && mkdir -p .carry && cd .carry &&
      apt-get download libstb-dev libfmt-dev libfmt9 libhwy-dev libprotozero-dev zlib1g-dev
    ;;
  *)
    sed -n '2,/^case /{/^case /d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
    ;;
esac
