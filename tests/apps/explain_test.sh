#!/usr/bin/env bash
# lamina features --explain: the number is what `lamina run` gives at that place, to the bit, and what it was made of adds
# up to it: explain_test.sh LAMINA SOURCE_DIR
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"
digits=$source/weights/digits.safetensors

# same PHOTO X,Y OPTION...: of every tenth filter of features.1
same() {
  local photo=$1 place=$2
  shift 2
  "$lamina" run --input "$photo" --outputs features.1 --out maps.safetensors --device cpu "$@" >/dev/null || return 1
  for filter in 0 5 10 15; do
    "$lamina" features "$photo" --explain "$place" --filter "$filter" --json - --out window.png --device cpu "$@" >window.json || return 1
    python3 - <<'EOF' || return 1
import json, struct
data = open("maps.safetensors", "rb").read()
length = struct.unpack("<Q", data[:8])[0]
(name, entry), = [(n, e) for n, e in json.loads(data[8:8 + length]).items() if n != "__metadata__"]
_, count, height, width = entry["shape"]
window = json.load(open("window.json"))[0]["window"]
at = (window["filter"] * height + window["row"]) * width + window["column"]
found = data[8 + length + 4 * at:][:4]
assert struct.pack("<f", window["value"]) == found, (window, struct.unpack("<f", found))
total = window["sum"] + window["bias"]
assert abs(max(0, total) - window["value"]) < 1e-4, window
EOF
  done
}
for place in 94,19 180,86 356,280; do
  check "the number at $place" same "$photo" "$place" --model "$model"
done
check 'blue first' same "$photo" 200,100 --model "$model" --preprocess caffe --fit crop
check 'letterboxed' same "$photo" 0,0 --model "$model" --fit letterbox
check 'a digit' same "$source/weights/digits/7.png" 3,7 --model "$digits"
check 'the picture is a PNG' grep -q PNG <(head -c 8 window.png)
expect 0 'wrote chelsea-window.png|chelsea-window.png' features "$photo" --explain 180,86
expect 0 'at 180,86 filter 54 gives 3\.0265.*11 × 11 pixels' features "$photo" --explain 180,86 --filter 54
expect 2 'expected a place of chelsea.png that the model sees, X from 94 to 356 and Y from 19 to 280, got 5,5' features "$photo" --explain 5,5
for place in x 1 1,2,3 -1,2 1,-2 99999999999,1 ,; do
  expect 2 'expected a pixel of the photograph, such as 120,80, got' features "$photo" --explain="$place"
done
expect 2 'expected a filter of features.1, from 0 to 95, got 96' features "$photo" --explain 180,86 --filter 96
expect 2 'filter needs --explain' features "$photo" --filter 3
expect 2 'explain: not with --sheet' features "$photo" --explain 180,86 --sheet sheet.png
expect 2 "whose filters see the photograph itself; those of features.3 do not" \
  features "$photo" --model "$digits" --layer features.3 --explain 180,86
finish
