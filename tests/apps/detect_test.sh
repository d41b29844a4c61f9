#!/usr/bin/env bash
# lamina detect, on networks whose answers are known (tests/golden/make_golden_detect.py): what it writes, says and refuses.
#   detect_test.sh LAMINA SOURCE_DIR
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"
if ! "$lamina" --help | grep -q '^  detect '; then
  echo "built with LAMINA_DETECT=OFF"
  exit 77
fi
golden=$source/tests/golden/detect
cp "$source/docs/images/coffee.png" photo.png

# a picture, without an option
expect 0 'photo.png: 600x400: [0-9]+ (cat|dog|it.s).*; [0-9.]+ ms, the network [0-9.]+, on cpu' detect photo.png --model "$golden/raw.onnx" --device cpu
check 'the picture is a PNG' grep -q PNG <(head -c 8 photo-detections.png)
check 'the picture is not the photograph' test "$(cksum <photo.png)" != "$(cksum <photo-detections.png)"
for task in segment pose obb end2end queries; do
  expect 0 "wrote $task.png" detect photo.png --model "$golden/$task.onnx" --out "$task.png"
done
expect 0 '^photo.png: 600x400: ' detect photo.png --model "$golden/raw.onnx" --no-pictures
check 'one picture for each model' test "$(find . -name '*.png' | wc -l)" -eq 7

# JSON, CSV, COCO
"$lamina" detect photo.png --model "$golden/segment.onnx" --no-pictures --json - --coco coco.json >answer.json
"$lamina" detect photo.png --model "$golden/obb.onnx" --no-pictures --json turned.json --coco unused.json >text
"$lamina" detect photo.png --model "$golden/raw.onnx" --no-pictures --csv >answer.csv
cp photo.png 000000000139.png
"$lamina" detect 000000000139.png --model "$golden/pose.onnx" --no-pictures --json pose.json --coco pose-coco.json >text
check 'the files say the same' python3 - <<'EOF2'
import json
answer, = json.load(open("answer.json"))
things = answer["detections"]
assert (answer["photo"], answer["width"], answer["height"]) == ("photo.png", 600, 400) and len(things) > 3
assert [t["score"] for t in things] == sorted((t["score"] for t in things), reverse=True)
for thing, coco in zip(things, json.load(open("coco.json")), strict=True):
    x1, y1, x2, y2 = thing["box"]
    assert 0 <= x1 <= x2 <= 600 and 0 <= y1 <= y2 <= 400 and thing["name"] == ["cat", "it's", "dog"][thing["class"]]
    assert coco["image_id"] == "photo" and coco["category_id"] == thing["class"] and coco["score"] == thing["score"]
    assert max(abs(a - b) for a, b in zip(coco["bbox"], (x1, y1, x2 - x1, y2 - y1))) < 1e-3
    assert coco["segmentation"] == thing["mask"] and thing["mask"]["size"] == [400, 600]
turned = json.load(open("turned.json"))[0]["detections"][0]
assert len(turned["corners"]) == 8 and len(turned["turned"]["size"]) == 2
pose, coco = json.load(open("pose.json"))[0]["detections"][0], json.load(open("pose-coco.json"))[0]
assert coco["image_id"] == 139 and sum(pose["points"], []) == coco["keypoints"]
lines = open("answer.csv").read().splitlines()
assert lines[0] == "photo,rank,class,name,score,left,top,right,bottom" and lines[1].startswith("photo.png,1,")
EOF2

# what is asked for
expect 0 ': [0-9]+ dog;' detect photo.png --model "$golden/raw.onnx" --no-pictures --classes dog
expect 0 ': [0-9]+ dog;' detect photo.png --model "$golden/raw.onnx" --no-pictures --classes 2
expect 0 ': nothing;' detect photo.png --model "$golden/raw.onnx" --no-pictures --confidence 1
expect 0 ': 1 (cat|dog|it.s);' detect photo.png --model "$golden/raw.onnx" --no-pictures --most 1
printf 'x\ny\nz\n' >labels.txt
expect 0 ' [xyz][,;]' detect photo.png --model "$golden/raw.onnx" --no-pictures --labels labels.txt

# a model file of a detector, and what is noted in it
expect 0 'wrote kept.safetensors' convert "$golden/pose.onnx" kept.safetensors
expect 0 'person' detect photo.png --model kept.safetensors --no-pictures
expect 0 'wrote noted.safetensors' convert "$golden/bare.onnx" noted.safetensors --task obb --layout raw --labels labels.txt
expect 1 'names 3 classes.*scores of 2' detect photo.png --model noted.safetensors --no-pictures
expect 0 'wrote named.safetensors' convert "$golden/bare.onnx" named.safetensors --task detect --labels labels.txt
expect 0 ' [xyz][,;]' detect photo.png --model named.safetensors --no-pictures

# what is wrong
expect 2 'confidence' detect photo.png --model "$golden/raw.onnx" --confidence 1.5
expect 2 'iou' detect photo.png --model "$golden/raw.onnx" --iou -0.1
expect 1 'class of the model by name or number, got "cow"; nearest' detect photo.png --model "$golden/raw.onnx" --classes cow
expect 1 'got "3"' detect photo.png --model "$golden/raw.onnx" --classes 3
expect 1 'digits.safetensors: expected outputs of a detector.*scores of a classifier' detect photo.png --model "$source/weights/digits.safetensors"
printf 'x\n' >labels.txt
expect 1 'names 1 classes.*scores of 3' detect photo.png --model "$golden/raw.onnx" --labels labels.txt
mkdir other && cp photo.png other/photo.jpg
expect 1 'coco: photo.png and other/photo.jpg would both be image "photo"' detect photo.png other/photo.jpg --model "$golden/raw.onnx" --coco same.json
cp photo.png 139.png
expect 1 'would both be image 139' detect 139.png 000000000139.png --model "$golden/raw.onnx" --coco same.json
check 'nothing was written' test ! -e same.json
echo nothing >broken.png
expect 1 'broken.png' detect broken.png photo.png --model "$golden/raw.onnx" --no-pictures --json both.json
check 'the other one was looked at' python3 -c 'import json; a = json.load(open("both.json")); assert "error" in a[0] and a[1]["detections"]'
finish
