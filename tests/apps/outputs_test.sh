#!/usr/bin/env bash
# Every output option against every input: nothing that a command reads is overwritten, whatever the name it is given by.
#   outputs_test.sh LAMINA SOURCE_DIR
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

mkdir photos
cp "$photo" photo.png
cp "$photo" photos/inside.png
cp "$source/weights/digits.safetensors" model.safetensors
cp "$source/tests/golden/tiny-resnet.safetensors" weights.safetensors
seq 10 >labels.txt
python3 - "$source" <<'PY'
import json, struct
shape = [1, 3, 32, 32]
header = json.dumps({"input": {"dtype": "F32", "shape": shape, "data_offsets": [0, 4 * 3 * 32 * 32]}}).encode()
open("inputs.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + bytes(4 * 3 * 32 * 32))
PY
before=$(cksum photo.png photos/inside.png model.safetensors weights.safetensors labels.txt inputs.safetensors)

# spared INPUT... -- ARGUMENT... : the last argument, an option's name, gets each input by its own name, a dot, a symbolic
# link and a hard link, with the ending that the option asks for, and is refused each time.
spared() {
  local inputs=() name ending
  while [ "$1" != -- ]; do inputs+=("$1"); shift; done
  shift
  case ${*: -1} in
    --out | --sheet) ending=.png ;;
    --json) ending=.json ;;
    *) ending=.safetensors ;;
  esac
  for input in "${inputs[@]}"; do
    rm -f link.* hard.*
    ln -s "$input" "link$ending"
    ln "$input" "hard$ending"
    for name in "./$input" "link$ending" "hard$ending"; do
      case $name in *"$ending") expect 1 'would be overwritten' "$@" "$name" ;; esac
    done
  done
  check "lamina $*: what it read is as it was" test "$(cksum photo.png photos/inside.png model.safetensors weights.safetensors labels.txt inputs.safetensors)" = "$before"
}

for option in --out --sheet --output-tensor; do
  spared photo.png model.safetensors -- features photo.png --model model.safetensors "$option"
done
for option in --out --json; do
  spared photo.png model.safetensors labels.txt -- segment photo.png --model model.safetensors --labels labels.txt "$option"
done
spared inputs.safetensors model.safetensors -- run --model model.safetensors --input inputs.safetensors --output
spared photo.png model.safetensors -- run --model model.safetensors --input photo.png --output
spared weights.safetensors -- convert weights.safetensors
spared weights.safetensors labels.txt -- convert weights.safetensors --labels labels.txt
spared model.safetensors -- bench model --model model.safetensors --seconds 0.01 --json

# a picture of a directory that is read; two outputs that are one
expect 1 'photos/inside.png is the file of photos too' features photos --model model.safetensors --layer features.0 --sheet photos/inside.png
expect 1 'one.png is the file of --(out|sheet) too' features photo.png --model model.safetensors --layer features.0 --out one.png --sheet one.png
check 'no output of a refused command' test ! -e one.png

# what a command writes may be written again
for turn in 1 2; do
  expect 0 'wrote again.safetensors' convert weights.safetensors again.safetensors
  expect 0 'pictures/photo' features photo.png --model model.safetensors --layer features.0 --out pictures --sheet "sheet$turn.png"
done

finish
