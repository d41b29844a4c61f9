#!/usr/bin/env bash
# Builds Lamina and shows what the 96 filters of AlexNet's first layer see in photographs.
#   scripts/demo.sh [PHOTO|DIRECTORY ...]     (default: the photographs in docs/images)
#   scripts/demo.sh --page                    (a page to drop photographs on, in the browser)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage="usage: scripts/demo.sh [PHOTO|DIRECTORY ...]
       scripts/demo.sh --page
Builds Lamina and shows what the 96 filters of AlexNet's first layer see in photographs (default: those in docs/images).
--page: on a page in the browser, to drop photographs on; Ctrl-C ends it.
CMAKE_BUILD_PARALLEL_LEVEL=2 scripts/demo.sh runs two compilers at a time; otherwise as many as there are cores."

# Nothing is installed or built for a question or a name that is wrong.
photos=()
page=false
for photo in "$@"; do
  case $photo in
    -h | --help) echo "$usage"; exit 0 ;;
    --page) page=true; continue ;;
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
source scripts/build.sh
stage "packages" scripts/install-deps.sh

build=build/here
stage "configuring" configure_here -DLAMINA_PYTHON=OFF
stage "compiling (4 to 8 minutes on two cores)" cmake --build $build --target lamina_command

show() {  # in a browser or a file manager, where there is a desktop
  if [ -t 1 ] && command -v xdg-open >/dev/null 2>&1 && [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then
    xdg-open "$1" >/dev/null 2>&1 || true
  fi
}

if $page; then
  (sleep 2; show http://127.0.0.1:8080/) &
  exec $build/bin/lamina serve
fi
$build/bin/lamina features "${photos[@]}" --out $build/pictures --sheet $build/sheet.png
echo
echo "Open the pictures in $root/$build/pictures, or all at once in $root/$build/sheet.png"
show $build/sheet.png
