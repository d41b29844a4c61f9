#!/usr/bin/env bash
# Builds Lamina and shows what the 96 filters of AlexNet's first layer see in photographs.
#   scripts/demo.sh [PHOTO|DIRECTORY ...]     (default: the photographs in docs/images)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage="usage: scripts/demo.sh [PHOTO|DIRECTORY ...]
Builds Lamina and shows what the 96 filters of AlexNet's first layer see in photographs (default: those in docs/images)."

# Nothing is installed or built for a question or a name that is wrong.
photos=()
for photo in "$@"; do
  case $photo in
    -h | --help) echo "$usage"; exit 0 ;;
    -*) echo "demo.sh: there is no option $photo" >&2; echo "$usage" >&2; exit 2 ;;
  esac
  if [ ! -e "$photo" ]; then
    echo "demo.sh: $photo: there is no such file or directory" >&2
    exit 1
  fi
  photos+=("$(realpath -- "$photo")")
done
if [ ${#photos[@]} -eq 0 ]; then
  photos=("$root/docs/images")
fi

cd "$root"
scripts/install-deps.sh
source scripts/build.sh

# CUDA code for the GPU that is here, or none: compiling for every GPU would take minutes that a demo need not.
configure demo -DLAMINA_CUDA=AUTO -DCMAKE_CUDA_ARCHITECTURES=native
cmake --build --preset demo --target lamina_command

build/demo/bin/lamina features "${photos[@]}" --out build/demo/pictures
echo
echo "Open the pictures in $root/build/demo/pictures"
if [ -t 1 ] && command -v xdg-open >/dev/null 2>&1 && [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then
  xdg-open build/demo/pictures >/dev/null 2>&1 || true
fi
