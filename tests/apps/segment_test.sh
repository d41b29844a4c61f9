#!/usr/bin/env bash
# lamina segment, on networks that tell pure colours apart: what it says of a picture can be counted by hand.
#   segment_test.sh LAMINA SOURCE_DIR
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

python3 - <<'EOF2'
import json, struct
def model(path, shape, classes, weights, outputs=("scores",), **metadata):
    graph = {"version": 1, "inputs": [{"name": "x", "dtype": "f32", "shape": shape}],
             "nodes": [{"name": "scores", "op": "conv2d", "inputs": ["x"]}, {"name": "flat", "op": "flatten", "inputs": ["scores"]}],
             "outputs": list(outputs)}
    header = {"scores.weight": {"dtype": "F32", "shape": [classes, 3, 1, 1], "data_offsets": [0, 12 * classes]},
              "__metadata__": {"lamina.graph": json.dumps(graph), **{f"lamina.{k}": v for k, v in metadata.items()}}}
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + struct.pack(f"<{3 * classes}f", *weights))
red, green, blue = [1, 0, 0], [0, 1, 0], [0, 0, 1]
rgb, fixed, free = red + green + blue, ["N", 3, 16, 16], ["N", 3, "?", "?"]
levels = {"mean": [0, 0, 0], "std": [1, 1, 1]}
named = "background\ngrass\nsky"
model("fixed.safetensors", fixed, 3, rgb, labels=named)
model("pair.safetensors", [2, 3, 16, 16], 3, rgb, labels=named)
model("open.safetensors", free, 3, rgb)
model("two.safetensors", fixed, 3, rgb, outputs=("flat", "scores"))
model("voc.safetensors", fixed, 21, rgb + red * 18)
model("wrong.safetensors", fixed, 3, rgb, labels="a\nb")
model("nan.safetensors", fixed, 3, [float("nan")] * 9)
model("middle.safetensors", fixed, 3, rgb, preprocess=json.dumps({"resize": 16, "crop": 16, **levels}))
model("swapped.safetensors", fixed, 3, rgb, preprocess=json.dumps({"resize": 16, "crop": 16, "order": "bgr", "aspect": "ignored", **levels}))
def ppm(path, rows):
    colours = {"r": b"\xff\0\0", "g": b"\0\xff\0", "b": b"\0\0\xff"}
    open(path, "wb").write(b"P6 %d %d 255\n" % (len(rows[0]), len(rows)) + b"".join(colours[c] for row in rows for c in row))
ppm("quarters.ppm", ["r" * 16 + "g" * 16] * 16 + ["r" * 16 + "b" * 16] * 16)  # 32 x 32
ppm("wide.ppm", ["r" * 16 + "g" * 16 + "b" * 16] * 16)                       # 48 x 16
ppm("speck.ppm", ["r" * 64] * 31 + ["r" * 63 + "g"] + ["r" * 64] * 32)
EOF2

# the picture, the shares and the JSON, exactly
expect 0 'quarters.ppm: 32x32 -> \[1, 3, 16, 16\] -> scores \[1, 3, 16, 16\]; [0-9]+ ms on' segment quarters.ppm --model fixed.safetensors
expect 0 '^   25.00 %  sky$' segment quarters.ppm --model fixed.safetensors --device cpu --threads 3
check 'the picture is a PNG' grep -q PNG <(head -c 8 quarters-segments.png)
"$lamina" segment quarters.ppm --model fixed.safetensors --json - >answer.json
check 'JSON' cmp answer.json - <<'EOF2'
[
  {
    "photo": "quarters.ppm",
    "size": [
      32,
      32
    ],
    "classes": [
      {
        "class": 0,
        "name": "background",
        "index": 0,
        "share": 0.5
      },
      {
        "class": 1,
        "name": "grass",
        "index": 1,
        "share": 0.25
      },
      {
        "class": 2,
        "name": "sky",
        "index": 2,
        "share": 0.25
      }
    ]
  }
]
EOF2
same() { cmp -s answer.json "$1"; }
expect 0 'wrote x.png' segment quarters.ppm --model fixed.safetensors --json file.json --out x.png
check 'the same JSON in a file' same file.json
expect 0 'scores \[2, 3, 16, 16\]' segment quarters.ppm --model pair.safetensors --json pair.json
check 'the same from a model of a fixed batch' same pair.json

shares() {  # shares FILE WORDS...: of each photograph, "name share" of its classes, or what is wrong with it
  python3 - "$@" <<'EOF2'
import json, sys
found = [" ".join(f"{c['name']} {c['share']:.4g}" for c in a["classes"]) if "classes" in a else "error" for a in json.load(open(sys.argv[1]))]
if found != sys.argv[2:]: sys.exit(f"{sys.argv[1]}: expected {sys.argv[2:]}, got {found}")
EOF2
}

# names: of a file, of the model, of Pascal VOC, none
printf 'rot\ngrün\nblau\n' >labels.txt
expect 0 'grün' segment quarters.ppm --model fixed.safetensors --labels labels.txt --json a.json
check 'labels of a file' shares a.json 'rot 0.5 grün 0.25 blau 0.25'
expect 0 '25.00 %  bicycle' segment quarters.ppm --model voc.safetensors
expect 0 '50.00 %  class 0' segment quarters.ppm --model two.safetensors --output-name scores
printf 'a\n' >short.txt
expect 2 'labels: short.txt: expected 3 labels, one for each class, got 1' segment quarters.ppm --model fixed.safetensors --labels short.txt
expect 1 'wrong.safetensors: expected 3 labels, one for each class, got 2' segment quarters.ppm --model wrong.safetensors

# sizes: all of the photograph where nothing says otherwise, in its own proportions where the model lets it
expect 0 '\[1, 3, 16, 16\]' segment wide.ppm --model fixed.safetensors --json a.json
check 'all of a wide one' shares a.json 'background 0.3333 grass 0.3333 sky 0.3333'
expect 0 '48x16 -> \[1, 3, 520, 1560\]' segment wide.ppm --model open.safetensors
expect 0 '48x16 -> \[1, 3, 32, 96\]' segment wide.ppm --model open.safetensors --size 33 --json a.json
check 'of an open size' shares a.json 'class 0 0.3333 class 1 0.3333 class 2 0.3333'
expect 0 '48x16 -> \[1, 3, 24, 40\]' segment wide.ppm --model open.safetensors --input-shape 1x3x24x40
python3 -c 'open("long.ppm", "wb").write(b"P6 1 5000 255\n" + bytes(15000))'
expect 0 '1x5000 -> \[1, 3, 4160, 8\]' segment long.ppm --model open.safetensors
expect 2 "size: the model's input \"x\" is of one size, \[N, 3, 16, 16\]" segment wide.ppm --model fixed.safetensors --size 32
expect 2 'input-shape: expected a shape of photographs' segment wide.ppm --model open.safetensors --input-shape 1x4x24x40
expect 2 'input-shape: expected a shape of photographs' segment wide.ppm --model fixed.safetensors --input-shape 1x3x24x40
expect 2 'input-shape: expected a shape of photographs' segment wide.ppm --model open.safetensors --input-shape 1x3x0x40
expect 2 'input-shape: expected a shape of photographs' segment wide.ppm --model open.safetensors --input-shape 1x3x24x4000000000
expect 2 'input-shape: the model.s input is "x", not "y"' segment wide.ppm --model open.safetensors --input-shape y=1x3x24x40
expect 2 'size: expected a whole number' segment wide.ppm --model open.safetensors --size 0

# the model's own preprocessing: the middle of the photograph, of which alone the shares are; other channels first
expect 0 '100.00 %  class 1' segment wide.ppm --model middle.safetensors
expect 0 'wrote' segment quarters.ppm --model swapped.safetensors --json a.json
check 'blue first' shares a.json 'class 2 0.5 class 0 0.25 class 1 0.25'

# what is small has no line, but is counted
expect 0 'and 1 of 0.1 % or less' segment speck.ppm --model open.safetensors --size 64 --json a.json
check 'a speck is counted' shares a.json 'class 0 0.9998 class 1 0.0002441'

# models of another form
expect 1 'expected scores \[N, classes, h, w\] of 2 or more classes, flat is f32 \[1, 768\]' segment quarters.ppm --model two.safetensors
expect 2 'scorse' segment quarters.ppm --model fixed.safetensors --output-name scorse
expect 1 'classifier.6 is f32 \[1, 10\]' segment "$photo" --model "$source/weights/digits.safetensors"
expect 1 'scores are not numbers \(NaN\)' segment quarters.ppm --model nan.safetensors
expect 2 'expected --model FILE: torchvision makes one' segment quarters.ppm
expect 1 'voc.safetensors: this is a segmenter: lamina segment is for it$' classify quarters.ppm --model voc.safetensors

# many photographs: one picture each, nothing overwritten, broken ones reported
mkdir -p many/deeper many/more
cp quarters.ppm many/a.ppm
cp wide.ppm many/a.pgm   # by its name another kind
cp quarters.ppm many/deeper/a.ppm
cp wide.ppm many/more/a.ppm
: >many/broken.png
expect 1 'broken.png' segment many --recursive --model fixed.safetensors --out pictures --json many.json
check 'a picture for each' test "$(cd pictures && find . -name '*.png' | LC_ALL=C sort | tr '\n' ' ')" = \
  './a-segments.png ./a.ppm-segments.png ./deeper/a-segments.png ./more/a-segments.png '
third='background 0.3333 grass 0.3333 sky 0.3333' half='background 0.5 grass 0.25 sky 0.25'
check 'in order' shares many.json "$third" "$half" error "$half" "$third"
"$lamina" segment many --recursive --model fixed.safetensors --out pictures --json - >out.json 2>/dev/null
check 'JSON alone on stdout' cmp -s out.json many.json
expect 2 'folder for 2 photographs' segment quarters.ppm wide.ppm --model fixed.safetensors --out one.png
expect 2 'name of a .png or a .jpg' segment quarters.ppm --model fixed.safetensors --out one.webp
cp quarters-segments.png own.png
expect 2 'own.png is the file of the argument "photos" too' segment own.png --model fixed.safetensors --out ./own.png
check 'the photograph is intact' cmp -s quarters-segments.png own.png
mkdir here && cp quarters.ppm here/b.png && cp quarters.ppm here/b-segments.png
expect 0 'wrote here/b.png-segments.png' segment here --model fixed.safetensors --out here
check 'no photograph of the run is overwritten' cmp -s quarters.ppm here/b-segments.png
expect 2 'no/such' segment quarters.ppm --model fixed.safetensors --json no/such/file.json

# What a model file says of photographs holds for every command, which for a segmenter may be less than it sees without.
expect 0 'from now on the model sees the middle of a photograph; --fit stretch' convert fixed.safetensors middle.safetensors --preprocess imagenet
check 'the whole is not said to be less' test -z "$("$lamina" convert fixed.safetensors whole.safetensors --preprocess imagenet --fit stretch 2>&1 >/dev/null)"

# features keeps pictures apart in the same way
expect 0 'a.ppm-features.png' features many/a.ppm many/deeper/a.ppm many/more/a.ppm --model "$model" --out maps
check 'a picture of features for each' test "$(ls maps | wc -l)" -eq 3

finish
