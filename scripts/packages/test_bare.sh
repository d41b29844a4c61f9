#!/usr/bin/env bash
# Does on a bare Debian what a user would, and says how long it took. It needs root, debootstrap and the network; the
# Debian stays in build/bare, for the next time.
#   scripts/packages/test_bare.sh wheel [WHEEL]  installs the wheel of dist/ with pip; the tests of the Python package
#   scripts/packages/test_bare.sh deb            installs the packages of scripts/packages/build_deb.sh, uses them from the
#                                                command line, C and C++, and removes them without a trace
#   scripts/packages/test_bare.sh clone          clones the last commit, with git alone there; scripts/demo.sh and
#                                                scripts/test.sh
#   scripts/packages/test_bare.sh compilers      of Debian 13: every test by g++ 13 and by clang 19
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
what=${1:-}
case $what in
  wheel | deb | clone | compilers) ;;
  *)
    sed -n '2,/^set /{s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
    [ "$what" = --help ] && exit 0
    exit 2
    ;;
esac

release=bookworm
[ "$what" != compilers ] || release=trixie
bare=$PWD/build/bare/$release
# inside COMMAND...: in the bare Debian, with nothing of this machine's environment.
inside() {
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    LOAD="$(cut -d ' ' -f 1 /proc/loadavg)" \
    "$(command -v chroot)" "$bare" "$@"
}
if [ ! -e "$bare/made" ]; then
  rm -rf "$bare"
  debootstrap --variant=minbase $release "$bare" >/dev/null
  touch "$bare/made"
fi
rm -rf "$bare/tmp/lamina"
mkdir -p "$bare/tmp/lamina"

given() {
  mkdir "$bare/tmp/lamina/given"
  git ls-files -co --exclude-standard -- weights docs/images python/tests tests/golden/heic tests/golden/detect pyproject.toml examples |
    tar -cT - | tar -xC "$bare/tmp/lamina"
}

test_wheel() {
  local wheel=${1:-$(ls -t dist/lamina-*.whl | head -n 1)} tools=build/python/wheel-tools
  given
  inside bash -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv python3-pip' >/dev/null
  [ -x $tools/bin/python ] || python3 -m venv $tools
  $tools/bin/pip download -q --disable-pip-version-check --python-version 3.11 --only-binary :all: \
    -d "$bare/tmp/lamina/given" 'numpy>=1.26' 'nanobind-backend>=1,<2' pytest pillow pillow-heif typing_extensions
  cp "$wheel" "$bare/tmp/lamina/given"
  inside bash -ec '
    cd /tmp/lamina
    pip="/tmp/lamina/venv/bin/pip -q --disable-pip-version-check install --no-index --find-links given"
    python3 -m venv venv
    TIMEFORMAT="pip install and the first answer: %1R s, %1U + %1S s of a processor; load $LOAD"
    time {
      $pip lamina
      venv/bin/lamina classify weights/digits/7.png --model weights/digits.safetensors --top 1
    }
    venv/bin/lamina serve --help >/dev/null
    $pip pytest
    PATH=$PWD/venv/bin:$PATH venv/bin/python -m pytest -p no:cacheprovider python/tests
    $pip pillow pillow-heif
    PATH=$PWD/venv/bin:$PATH venv/bin/python -m pytest -p no:cacheprovider python/tests -k "pillow"'
}

test_deb() {
  given
  cp dist/*.deb "$bare/tmp/lamina/given"
  inside apt-get update -qq
  inside bash -ec '
    cd /tmp/lamina
    TIMEFORMAT="apt install and the first answer: %1R s, %1U + %1S s of a processor; load $LOAD"
    time {
      apt-get install -y -qq --no-install-recommends ./given/lamina_*.deb ./given/liblamina-c1_*.deb >log 2>&1 || { cat log; exit 1; }
      lamina classify weights/digits/7.png --model weights/digits.safetensors --top 1
    }
    apt-get install -y -qq --no-install-recommends ./given/liblamina-dev_*.deb gcc g++ libc6-dev pkg-config >log 2>&1 || { cat log; exit 1; }
    cc -std=c11 -pedantic examples/c/main.c $(pkg-config --cflags --libs lamina_c) -o c
    ./c weights/digits.safetensors weights/digits/7.png | head -n 1
    c++ -std=c++20 examples/custom_layer/main.cpp $(pkg-config --cflags --libs lamina) -o cxx
    ./cxx custom.safetensors | tail -n 1
    apt-get purge -y -qq lamina liblamina-dev liblamina-c1 >log 2>&1
    apt-get autoremove --purge -y -qq >log 2>&1
    find / -xdev -iname "*lamina*" -not -path "/tmp/*" -not -path "/proc/*" >left
    [ ! -s left ] || { cat left; exit 1; }'
}

# clone: the last commit, where git and certificates are all that was added. Tests ask what a machine tells in /proc.
clone() {
  for place in proc dev; do mount --bind /$place "$bare/$place"; done
  trap 'umount "$bare/proc" "$bare/dev"' EXIT
  git bundle create -q "$bare/tmp/lamina/bundle" HEAD
  inside bash -ec '
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends git ca-certificates >/dev/null
    git -c advice.detachedHead=false clone -q /tmp/lamina/bundle /tmp/lamina/clone'
}

test_clone() {
  clone
  inside bash -ec '
    cd /tmp/lamina/clone
    TIMEFORMAT="scripts/demo.sh: %1R s, %1U + %1S s of a processor; load $LOAD"
    time scripts/demo.sh
    TIMEFORMAT="scripts/test.sh: %1R s, %1U + %1S s of a processor"
    time scripts/test.sh'
}

test_compilers() {
  clone
  inside bash -ec '
    cd /tmp/lamina/clone
    scripts/install-deps.sh --with-tests
    apt-get install -y -qq --no-install-recommends g++-13 clang-19 >/dev/null
    for compiler in g++-13 clang++-19; do
      cmake --preset cpu -B build/$compiler -DCMAKE_CXX_COMPILER=$compiler -DLAMINA_UNITY=ON >/dev/null
      cmake --build build/$compiler
      ctest --test-dir build/$compiler -j "$(nproc)" --output-on-failure
    done'
}

"test_$what" "${@:2}"
