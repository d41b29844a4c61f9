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
expect 0 'photo.png: 600x400: (cat|dog|it.s) \([0-9]+\).*; [0-9.]+ ms, the model [0-9.]+, on cpu' detect photo.png --model "$golden/raw.onnx" --device cpu
check 'the picture is a PNG' grep -q PNG <(head -c 8 photo-detections.png)
check 'the picture is not the photograph' test "$(cksum <photo.png)" != "$(cksum <photo-detections.png)"
for task in segment pose obb end2end queries apart; do
  expect 0 "wrote $task.png" detect photo.png --model "$golden/$task.onnx" --out "$task.png"
done
expect 0 '^photo.png: 600x400: ' detect photo.png --model "$golden/raw.onnx" --no-pictures
check 'one picture for each model' test "$(find . -name '*.png' | wc -l)" -eq 8
expect 0 'bicycle|person' detect photo.png --model "$golden/apart.onnx" --no-pictures --classes person,bicycle

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
expect 0 ': dog \([0-9]+\);' detect photo.png --model "$golden/raw.onnx" --no-pictures --classes dog
expect 0 ': dog \([0-9]+\);' detect photo.png --model "$golden/raw.onnx" --no-pictures --classes 2
expect 0 ': nothing;' detect photo.png --model "$golden/raw.onnx" --no-pictures --confidence 1
expect 0 ': (cat|dog|it.s) \(1\);' detect photo.png --model "$golden/raw.onnx" --no-pictures --most 1
printf 'x\ny\nz\n' >labels.txt
expect 0 ' [xyz] \([0-9]+\)[,;]' detect photo.png --model "$golden/raw.onnx" --no-pictures --labels labels.txt

expect 0 ': dog \([0-9]+\);' detect photo.png --model "$golden/raw.onnx" --no-pictures --classes DOG
expect 0 ': nothing;' detect photo.png --model "$golden/raw.onnx" --no-pictures --conf 1

# files of labels and pictures of things, in folders as the photographs are
mkdir -p album/summer/june && cp photo.png album/first.png && cp photo.png album/summer/june/second.png
for task in raw obb pose; do
  expect 0 'first.png: 600x400' detect album --recursive --model "$golden/$task.onnx" --out drawn --txt "txt-$task" --crops "crops-$task" --json "$task.json"
done
check 'the files say the same as the JSON' python3 - <<'EOF3'
import json, os, struct
for task, columns in (("raw", 5), ("obb", 9), ("pose", 5 + 3 * 5)):
    found = {entry["photo"]: entry["detections"] for entry in json.load(open(f"{task}.json"))}
    assert set(found) == {"album/first.png", "album/summer/june/second.png"}
    for photo, things in found.items():
        place, stem = os.path.split(photo[len("album/"):-len(".png")])
        rows = [[float(number) for number in line.split()] for line in open(f"txt-{task}/{place}/{stem}.txt")]
        assert len(rows) == len(things) > 0 and {len(row) for row in rows} == {columns}, (task, rows)
        assert os.path.exists(f"drawn/{place}/{stem}-detections.png")
        for i, (row, thing) in enumerate(zip(rows, things), 1):
            (x1, y1, x2, y2), clamped = thing["box"], lambda share: min(max(share, 0), 1)
            assert row[0] == thing["class"]
            if task == "obb":
                expected = [clamped(corner / (600, 400)[k % 2]) for k, corner in enumerate(thing["corners"])]
            else:
                expected = [clamped(share) for share in ((x1 + x2) / 1200, (y1 + y2) / 800, (x2 - x1) / 600, (y2 - y1) / 400)]
            assert all(abs(a - b) < 2e-6 for a, b in zip(row[1:], expected)), (row, expected)
            picture = open(f"crops-{task}/{place}/{thing['name']}/{stem}-{i}.png", "rb").read()
            width, height = struct.unpack(">II", picture[16:24])
            assert abs(width - (min(x2, 600) - max(x1, 0))) <= 2 and abs(height - (min(y2, 400) - max(y1, 0))) <= 2, (width, height, thing["box"])
EOF3
expect 0 'drawn|wrote' detect album --recursive --model "$golden/raw.onnx" --out album/drawn
expect 0 'left out .* that Lamina drew' detect album --recursive --model "$golden/raw.onnx" --no-pictures
# JPEG in place of PNG, by its flag and by its name; what was drawn is no photograph in this form either
expect 0 'left out .* that Lamina drew' detect album --recursive --model "$golden/raw.onnx" --out album/drawn --jpeg --crops jpegs
expect 0 'wrote one.jpg' detect photo.png --model "$golden/raw.onnx" --out one.jpg
check 'pictures are JPEG' python3 - <<'EOF4'
import glob
pictures = ["one.jpg", "album/drawn/first-detections.jpg", *glob.glob("jpegs/*/first-*.jpg")]
assert len(pictures) > 3 and all(open(name, "rb").read(3) == b"\xff\xd8\xff" for name in pictures), pictures
EOF4
expect 0 '^[^:]*: 600x400' detect one.jpg --model "$golden/raw.onnx" --no-pictures
expect 0 'left out 2 pictures that Lamina drew: first-detections.jpg, first-detections.png' detect album --recursive --model "$golden/raw.onnx" --no-pictures
expect 2 'expected the name of a .jpg as --jpeg says' detect photo.png --model "$golden/raw.onnx" --out one.png --jpeg

# outlines of masks: what they hold is the mask, but for a pixel at its edge
expect 0 'wrote outlines/photo.txt' detect photo.png --model "$golden/segment.onnx" --no-pictures --most 3 --txt outlines --json outlines.json
check 'the outlines hold the masks' python3 - <<'EOF5'
import json

def mask_of(rle):  # of COCO's compressed form, column by column
    height, width = rle["size"]
    runs, text, at = [], rle["counts"], 0
    while at < len(text):
        value = shift = 0
        while True:
            letter, at = ord(text[at]) - 48, at + 1
            value, shift = value | (letter & 31) << shift, shift + 5
            if not letter & 32:
                break
        if letter & 16:
            value -= 1 << shift
        runs.append(value + (runs[-2] if len(runs) > 2 else 0))
    flat = [k % 2 for k, run in enumerate(runs) for _ in range(run)]
    return [[flat[x * height + y] for x in range(width)] for y in range(height)]

def filled(outline, width, height):  # even and odd crossings of each row's middle
    rows = [[0] * width for _ in range(height)]
    points = list(zip(outline[::2], outline[1::2]))
    for y in range(height):
        crossings = sorted(x1 + (y + 0.5 - y1) * (x2 - x1) / (y2 - y1)
                           for (x1, y1), (x2, y2) in zip(points, points[1:] + points[:1]) if (y1 <= y + 0.5) != (y2 <= y + 0.5))
        for begin, end in zip(crossings[::2], crossings[1::2]):
            for x in range(round(begin), round(end)):
                rows[y][x] ^= 1
    return rows

answer = json.load(open("outlines.json"))[0]
lines = open("outlines/photo.txt").read().splitlines()
assert len(lines) == len(answer["detections"]) > 0
width, height = answer["width"], answer["height"]
for line, thing in zip(lines, answer["detections"]):
    mask, numbers = mask_of(thing["mask"]), [float(number) for number in line.split()]
    assert numbers[0] == thing["class"] and len(numbers) % 2 == 1 and min(numbers[1:]) >= 0 and max(numbers[1:]) <= 1
    shares = [number * (width, height)[k % 2] for k, number in enumerate(numbers[1:])]
    pixels, parts = sum(map(sum, mask)), [0] * (width * height)
    assert pixels == 0 or thing["polygons"]
    for outline in ([shares] if pixels else []):
        got = filled(outline, width, height)
        both = sum(a & b for x, y in zip(mask, got) for a, b in zip(x, y))
        either = sum(a | b for x, y in zip(mask, got) for a, b in zip(x, y))
        edge = sum(len(part) for part in thing["polygons"])
        assert both / either > 0.9 or either - both < 4 * edge, (thing["class"], both, either, pixels)
EOF5
cp photo.png album/first.bmp
expect 2 'txt: two photographs would have their labels in first.txt' detect album --model "$golden/raw.onnx" --no-pictures --txt once
expect 1 'cannot make the folder photo.png/once/ of --txt' detect photo.png --model "$golden/raw.onnx" --no-pictures --txt photo.png/once

# a model file of a detector, and what is noted in it
expect 0 'wrote kept.safetensors' convert "$golden/pose.onnx" kept.safetensors
expect 0 'person' detect photo.png --model kept.safetensors --no-pictures
expect 0 'wrote noted.safetensors' convert "$golden/bare.onnx" noted.safetensors --task obb --layout raw --labels labels.txt
expect 1 'names 3 classes.*scores of 2' detect photo.png --model noted.safetensors --no-pictures
expect 0 'wrote named.safetensors' convert "$golden/bare.onnx" named.safetensors --task detect --labels labels.txt
expect 0 ' [xyz] \([0-9]+\)[,;]' detect photo.png --model named.safetensors --no-pictures

# a size that the network's halvings do not divide: at two levels, whose maps are then joined
python3 - <<'EOF6'
import json, struct
nodes, tensors = [], {"w1": [4, 3, 3, 3], "w2": [4, 4, 3, 3], "up": [4, 4, 2, 2], "w3": [6, 8, 1, 1]}
def add(name, op, inputs, **attrs):
    nodes.append({"name": name, "op": op, "inputs": inputs, "attrs": attrs})
for name in tensors:
    add(name, "Constant", [])
add("shape", "Constant", [])
add("a", "Conv", ["x", "w1"], strides=[2, 2], pads=[1, 1, 1, 1])
add("b", "Conv", ["a", "w2"], strides=[2, 2], pads=[1, 1, 1, 1])
add("c", "ConvTranspose", ["b", "up"], strides=[2, 2])
add("d", "Concat", ["a", "c"], axis=1)
add("e", "Conv", ["d", "w3"])
add("y", "Reshape", ["e", "shape"])
graph = {"version": 1, "inputs": [{"name": "x", "shape": ["N", 3, "?", "?"]}], "nodes": nodes, "outputs": ["y"]}
header, data = {"__metadata__": {"lamina.graph": json.dumps(graph)}}, b""
for name, shape in tensors.items():
    count = shape[0] * shape[1] * shape[2] * shape[3]
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * count]}
    data += struct.pack(f"<{count}f", *[0.01] * count)
header["shape"] = {"dtype": "I64", "shape": [3], "data_offsets": [len(data), len(data) + 24]}
data += struct.pack("<3q", 0, 6, -1)
text = json.dumps(header).encode()
open("halving.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)
EOF6
expect 0 'photo.png: 600x400' detect photo.png --model halving.safetensors --no-pictures --size 64
for size in 62 65; do
  expect 2 "^lamina: --size: expected a multiple of 4, such as (60|64) or (64|68), got $size$" detect photo.png --model halving.safetensors --no-pictures --size $size
done
# "-" is stdout, also COCO's
"$lamina" detect photo.png --model "$golden/raw.onnx" --no-pictures --coco - >printed.json
"$lamina" detect photo.png --model "$golden/raw.onnx" --no-pictures --coco coco2.json >text
check 'COCO on stdout is what the file holds' cmp printed.json coco2.json
check 'no file is called -' test ! -e ./-

# what is wrong
expect 2 'model: there is no file yolo11n.onnx; Ultralytics makes one' detect photo.png --model yolo11n.onnx
check 'detect and segment offer no networks that they refuse' test -z "$({ "$lamina" detect --help-all; "$lamina" segment --help-all; } | grep -e '--arch \|digits, which')"
expect 2 'confidence: expected a number from 0 to 1, got "25"; did you mean 0.25\?' detect photo.png --model "$golden/raw.onnx" --conf 25
expect 2 'confidence: expected a number from 0 to 1, got "1.5"' detect photo.png --model "$golden/raw.onnx" --confidence 1.5
expect 2 'iou' detect photo.png --model "$golden/raw.onnx" --iou -0.1
expect 2 'class of the model by name or number, got "cow"; nearest' detect photo.png --model "$golden/raw.onnx" --classes cow
for named in raw bare; do
  expect 2 '--classes: the model.s are 0 to 2, got "3"' detect photo.png --model "$golden/$named.onnx" --classes 3
done
expect 1 'digits.safetensors: expected outputs of a detector.*scores of a classifier' detect photo.png --model "$source/weights/digits.safetensors"
expect 2 'expected --model FILE: .*yolo export model=yolo11n.pt format=onnx' detect photo.png
expect 2 '--size: expected 64 x 96, as the model.s input .* says, got 1024' detect photo.png --model "$golden/raw.onnx" --size 1024
if "$lamina" --help | grep -q '^  serve '; then
  expect 2 '--size: expected 64 x 96, as' serve --model "$golden/raw.onnx" --size 640 --port 0
fi
expect 2 '--input-shape: the model.s input is .*, not "foo"' detect photo.png --model "$golden/open.onnx" --input-shape foo=1x3x320x512
expect 2 '--input-shape: expected the shape' detect photo.png --model "$golden/raw.onnx" --input-shape 1x3x1024x1024
expect 2 '--no-pictures' detect photo.png --model "$golden/raw.onnx" --out a.png --no-pictures
expect 2 'raw.onnx is no photograph; did you mean --model .*raw.onnx[?]' detect photo.png "$golden/raw.onnx"
expect 2 'has no node "out.0"; nearest: "output0"$' run --model "$golden/raw.onnx" --input photo.png --preprocess yolo --outputs out.0 --json
echo weights >best.pt
expect 1 'best.pt: PyTorch.s weights, .*yolo export model=best.pt format=onnx' detect photo.png --model best.pt
# a detector for other commands: they name this one
for options in '' '--preprocess imagenet'; do
  expect 1 'open.onnx: this is a detector: lamina detect is for it$' classify photo.png --model "$golden/open.onnx" $options
done
for task in raw segment pose obb end2end queries; do
  expect 1 "$task.onnx: this is a detector: lamina detect is for it\$" segment photo.png --model "$golden/$task.onnx"
done
expect 1 'raw.onnx: this is a detector: lamina detect is for it, --preprocess yolo says here how a photograph becomes its input$' features photo.png --model "$golden/raw.onnx"
expect 1 'raw.onnx: this is a detector: .*--preprocess yolo' run --input photo.png --model "$golden/raw.onnx" --json
printf 'x\n' >labels.txt
expect 2 'labels: labels.txt: it names 1 classes, the model.s output .*scores of 3$' detect photo.png --model "$golden/raw.onnx" --labels labels.txt
mkdir other && cp photo.png other/photo.jpg
cp photo.png 139.png
expect 0 'other/photo.jpg' detect photo.png other/photo.jpg 139.png 000000000139.png album/first.png --model "$golden/raw.onnx" --no-pictures --coco same.json
check 'COCO has another name for each photograph' test "$(python3 -c 'import json; print(*dict.fromkeys(str(thing["image_id"]) for thing in json.load(open("same.json"))))')" = 'photo.png other/photo.jpg 139 000000000139 first'
echo nothing >broken.png
expect 1 'broken.png' detect broken.png photo.png --model "$golden/raw.onnx" --no-pictures --json both.json
check 'the other one was looked at' python3 -c 'import json; a = json.load(open("both.json")); assert "error" in a[0] and a[1]["detections"]'
finish
