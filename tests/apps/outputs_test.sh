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

# spared ENDING INPUT... -- ARGUMENT... : the last argument, an option's name or the command's before a positional, gets
# each input by its own name, a dot, a symbolic link and a hard link, with that ending, and is refused each time.
spared() {
  local inputs=() name ending=$1
  shift
  while [ "$1" != -- ]; do inputs+=("$1"); shift; done
  shift
  for input in "${inputs[@]}"; do
    rm -f link.* hard.*
    ln -s "$input" "link$ending"
    ln "$input" "hard$ending"
    for name in "./$input" "link$ending" "hard$ending"; do
      case $name in *"$ending") expect 2 'would be overwritten' "$@" "$name" ;; esac
    done
  done
  check "lamina $*: what it read is as it was" test "$(cksum photo.png photos/inside.png model.safetensors weights.safetensors labels.txt inputs.safetensors)" = "$before"
}

covered=''
try() {  # try ENDING INPUT... -- ARGUMENT...: the same, noting which option of which command it was
  spared "$@"
  while [ "$1" != -- ]; do shift; done
  covered+="$2 ${*: -1}"$'\n'
}

model=model.safetensors
try .png photo.png $model -- features photo.png --model $model --out
try .safetensors photo.png $model -- features photo.png --model $model --out
try .png photo.png $model -- features photo.png --model $model --sheet
try .safetensors photo.png $model -- features photo.png --model $model --output-tensor
try .json photo.png $model -- features photo.png --model $model --json
if "$lamina" --help | grep -q '^  detect '; then
  for what in '.png --out' '.json --json' '.json --coco'; do
    try ${what% *} photo.png $model labels.txt -- detect photo.png --model $model --labels labels.txt ${what#* }
  done
fi
try .png photo.png $model labels.txt -- segment photo.png --model $model --labels labels.txt --out
try .json photo.png $model labels.txt -- segment photo.png --model $model --labels labels.txt --json
try .json photo.png $model labels.txt -- classify photo.png --model $model --labels labels.txt --json
try .safetensors inputs.safetensors $model -- run --model $model --input inputs.safetensors --out
try .safetensors photo.png $model -- run --model $model --input photo.png --output
try .json inputs.safetensors $model -- run --model $model --input inputs.safetensors --json
try .json inputs.safetensors $model -- verify --model $model --golden inputs.safetensors --json
try .json weights.safetensors -- inspect weights.safetensors --json
try .safetensors weights.safetensors -- convert weights.safetensors
try .safetensors weights.safetensors labels.txt -- convert weights.safetensors --labels labels.txt --out
try .json $model -- bench model --model $model --seconds 0.01 --json

# no command writes by an option that was not tried
for command in features detect segment classify run verify inspect convert doctor; do
  for option in --out --sheet --json --coco --output --output-tensor; do
    case "$command $option" in 'doctor --json' | 'segment --output') continue ;; esac  # reads nothing; short for another
    grep -qE -- "^ +$option( |\[|$)" <<<"$("$lamina" $command --help)" || continue
    check "lamina $command $option was tried" grep -qx -- "$command $option" <<<"$covered"
  done
done

# a picture of a directory that is read; two outputs that are one
expect 2 'photos/inside.png is the file of the argument "photos" too' features photos --model model.safetensors --layer features.0 --sheet photos/inside.png
expect 2 'one.png is the file of --(out|sheet) too' features photo.png --model model.safetensors --layer features.0 --out one.png --sheet one.png
check 'no output of a refused command' test ! -e one.png

# a folder that is not there is said before the work begins, on photographs that cannot be read
echo nothing >broken.png
expect 2 'json: there is no folder "nowhere"' classify broken.png --model $model --json nowhere/x.json
expect 2 'json: there is no folder "nowhere"' segment broken.png --model $model --json nowhere/x.json
expect 2 'out: there is no folder "nowhere"' features broken.png --model $model --out nowhere/x.png
expect 2 'sheet: there is no folder "nowhere"' features broken.png --model $model --out drawn --sheet nowhere/sheet.png
check 'nothing was made' test ! -e drawn
expect 0 'wrote drawn/sheet.png: 1 photograph$' features "$source/docs/images/chelsea.png" --out drawn --sheet drawn/sheet.png
expect 2 'out: there is no folder "nowhere"' features broken.png --model $model --out nowhere/x.safetensors
expect 2 'out: there is no folder "nowhere"' convert weights.safetensors nowhere/x.safetensors
check 'it is not made' test ! -e nowhere

# models, class names and the default model by their names
before=$(cksum "$source"/weights/{digits,alexnet-conv1}.safetensors "$source/weights/imagenet_classes.txt")
expect 2 'digits.safetensors is the file of --model too' run --model digits --input inputs.safetensors --out "$source/weights/digits.safetensors"
expect 2 'imagenet_classes.txt is the file of --labels too' classify photo.png --model digits --labels imagenet --json "$source/weights/imagenet_classes.txt"
expect 2 'digits.safetensors is the file of the argument "in" too' convert digits "$source/weights/digits.safetensors"
expect 2 'alexnet-conv1.safetensors is the file of the model too' features photo.png --out "$source/weights/alexnet-conv1.safetensors"
expect 2 'alexnet-conv1.safetensors, a model' features photo.png --json "$source/weights/alexnet-conv1.safetensors"
check 'what was read by its name is as it was' test "$(cksum "$source"/weights/{digits,alexnet-conv1}.safetensors "$source/weights/imagenet_classes.txt")" = "$before"

# pictures that were drawn are no photographs of the next run
mkdir here && cp photo.png here/a.png
for turn in 1 2; do
  check "features . in a folder, turn $turn" bash -c 'cd here && "$0" features . --model ../model.safetensors --layer features.0 --sheet sheet.png >out.txt 2>err.txt' "$lamina"
  check 'one photograph' grep -q 'sheet.png: 1 photograph' here/out.txt
  check 'one picture and the sheet' test "$(ls here/*.png | wc -l)" = 3
done
check 'which it says' grep -q '2 pictures that Lamina drew: a-features.0.png, sheet.png' here/err.txt

# what a command writes may be written again
for turn in 1 2; do
  expect 0 'wrote again.safetensors' convert weights.safetensors again.safetensors
  expect 0 'pictures/photo' features photo.png --model model.safetensors --layer features.0 --out pictures --sheet "sheet$turn.png"
done

# a GPU's generated kernels, of which a CPU has none
expect 0 'wrote 0 generated kernels to texts' inspect model.safetensors --plan --device cpu --dump-kernels texts
expect 2 '--plan' inspect model.safetensors --dump-kernels texts
expect 1 'cannot make the folder photo.png/texts of --dump-kernels' inspect model.safetensors --plan --device cpu --dump-kernels photo.png/texts

finish
