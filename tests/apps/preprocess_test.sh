#!/usr/bin/env bash
# How photographs become inputs: as the command line says it, by name, in parts, in the size that --input-shape sets; as
# files beside the model note it; in whichever form the model takes pictures;
# and the words that all commands share for what they write. A network that changes nothing shows its input.
#   preprocess_test.sh LAMINA SOURCE_DIR
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

python3 - <<'PY'
import json, struct
def model(path, shape, **metadata):
    graph = {"version": 1, "inputs": [{"name": "x", "dtype": "f32", "shape": shape}],
             "nodes": [{"name": "seen", "op": "conv2d", "inputs": ["x"]}], "outputs": ["seen"]}
    header = {"seen.weight": {"dtype": "F32", "shape": [3, 3, 1, 1], "data_offsets": [0, 36]},
              "__metadata__": {"lamina.graph": json.dumps(graph), **{f"lamina.{k}": v for k, v in metadata.items()}}}
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + struct.pack("<9f", 1, 0, 0, 0, 1, 0, 0, 0, 1))
whole = json.dumps({"resize": 8, "crop": 8, "mean": [0, 0, 0], "std": [1, 1, 1]})
model("open.safetensors", ["N", 3, "?", "?"])
model("known.safetensors", ["N", 3, "?", "?"], preprocess=whole)
model("fixed.safetensors", ["N", 3, 8, 8], preprocess=whole)
model("long.safetensors", ["N", 3, 8, 16])
model("noted.safetensors", ["N", 3, 8, 16], export=json.dumps({"mean": "abc", "labels": "red\ngreen\nblue"}))
def ppm(path, width, height, colour):
    open(path, "wb").write(b"P6 %d %d 255\n" % (width, height) + bytes(colour) * (width * height))
ppm("wide.ppm", 16, 8, (255, 51, 0))
open("shows.py", "w").write('''
import json, struct, sys
data = open(sys.argv[1], "rb").read()
length = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + length])
(name, entry), = [item for item in header.items() if item[0] != "__metadata__"]
assert entry["shape"] == json.loads(sys.argv[2]), entry["shape"]
begin, end = (8 + length + at for at in entry["data_offsets"])
values = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
_, _, height, width = entry["shape"]
for spot in sys.argv[3:]:  # row,column=red,green,blue
    place, colour = spot.split("=")
    row, column = map(int, place.split(","))
    seen = [values[(c * height + row) * width + column] for c in range(3)]
    assert all(abs(a - float(b)) < 1e-5 for a, b in zip(seen, colour.split(","))), (spot, seen)
''')
# an input of bytes, channels last, and a grey one that is not square
def graph_of(path, dtype, shape, nodes, tensors):
    graph = {"version": 1, "inputs": [{"name": "x", "dtype": dtype, "shape": shape}],
             "nodes": [{"name": n, "op": op, "inputs": i, "attrs": a} for n, op, i, a in nodes], "outputs": [nodes[-1][0]]}
    header, data = {"__metadata__": {"lamina.graph": json.dumps(graph)}}, b""
    for name, (extents, values) in tensors.items():
        header[name] = {"dtype": "F32", "shape": extents, "data_offsets": [len(data), len(data) + 4 * len(values)]}
        data += struct.pack(f"<{len(values)}f", *values)
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)
graph_of("bytes.safetensors", "u8", ["N", 8, 8, 3], [("f", "Cast", ["x"], {"to": 1}), ("t", "Transpose", ["f"], {"perm": [0, 3, 1, 2]}),
          ("m", "GlobalAveragePool", ["t"], {})], {})
filters = [1.0] * 9 + [0.0] * 4 + [-1.0] + [0.0] * 4
graph_of("grey.safetensors", "f32", ["N", 1, 8, 16],
         [("w", "Constant", [], {}), ("c", "Conv", ["x", "w"], {"pads": [1, 1, 1, 1]}), ("r", "Relu", ["c"], {})], {"w": ([2, 1, 3, 3], filters)})
graph_of("last.safetensors", "f32", ["N", 8, 16, 3],
         [("t", "Transpose", ["x"], {"perm": [0, 3, 1, 2]}), ("w", "Constant", [], {}), ("c", "Conv", ["t", "w"], {"pads": [1, 1, 1, 1]}),
          ("r", "Relu", ["c"], {})], {"w": ([2, 3, 3, 3], [0.5] * 54)})
PY
seen() {  # seen SHAPE SPOT... -- ARGUMENT...: what the network is given
  local spots=()
  while [ "$1" != -- ]; do spots+=("$1"); shift; done
  shift
  expect 0 'wrote seen.safetensors' run --input wide.ppm --out seen.safetensors "$@"
  check "lamina run $*: ${spots[*]}" python3 shows.py seen.safetensors "${spots[@]}"
}

# --input-shape sets the size that preprocessing makes, or says why not
seen '[1, 3, 12, 12]' 0,0=1,0.2,0 -- --model known.safetensors --input-shape 1x3x12x12
expect 0 'seen \[1, 3, 12, 12\]' features wide.ppm --model known.safetensors --input-shape x=1x3x12x12 --out twelve.png
seen '[1, 3, 8, 8]' 0,0=1,0.2,0 -- --model fixed.safetensors --input-shape 1x3x8x8
for command in 'run --out x.safetensors --input' features; do
  expect 2 'input-shape: expected the shape of a photograph, such as 1x3xHxW, for the model.s \[N, 3, 8, 8\], got \[1, 3, 12, 12\]' \
    $command wide.ppm --model fixed.safetensors --input-shape 1x3x12x12
  expect 2 'input-shape: expected the shape of a photograph.*got \[4, 3, 8, 8\]' \
    $command wide.ppm --model known.safetensors --input-shape 4x3x8x8
  expect 2 'size: expected 12, as --input-shape says, got 8' \
    $command wide.ppm --model known.safetensors --input-shape 1x3x12x12 --size 8
  expect 2 'size: expected 8, as the model.s input "x" \[N, 3, 8, 8\] says, got 9' $command wide.ppm --model fixed.safetensors --size 9
  expect 2 'size: expected 8 x 16, as the model.s input "x" \[N, 3, 8, 16\] says, got 8' $command wide.ppm --model long.safetensors --scale 1 --size 8
  expect 1 'does not say how a photograph becomes its input.*--preprocess imagenet' $command wide.ppm --model open.safetensors
  expect 1 'leaves the size of its input open: --size says it' $command wide.ppm --model open.safetensors --scale 1
done

# in parts: red and green of a photograph that is twice as wide as high
seen '[1, 3, 6, 6]' 0,0=1,0.2,0 5,5=1,0.2,0 -- --model open.safetensors --size 6 --scale 1/255
seen '[1, 3, 6, 6]' 3,3=255,51,0 -- --model open.safetensors --size 6 --scale 1 --fit stretch
seen '[1, 3, 8, 8]' 0,0=0,0,0 2,0=1,0.2,0 5,7=1,0.2,0 6,0=0,0,0 -- --model open.safetensors --size 8 --fit letterbox
seen '[1, 3, 8, 8]' 1,1=114,115,116 2,0=255,51,0 -- --model open.safetensors --size 8 --fit letterbox --fill 114,115,116 --scale 1
seen '[1, 3, 6, 6]' 0,0=0.5,-0.3,-0.5 -- --model open.safetensors --size 6 --mean 0.5 --scale 1/255
seen '[1, 3, 6, 6]' 0,0=0,-0.4,2 -- --model open.safetensors --size 6 --bgr --mean 0,0.4,0 --std 0.5,0.5,0.5 --scale 1/255
# a mean or a std above 1 is of levels from 0 to 255, as in the notes of files, and so is what a name says beside it
levels_mean=123.675,116.28,103.53
seen '[1, 3, 8, 8]' 0,0=2.2489083,-1.1428571,-1.8044444 -- --model fixed.safetensors --mean $levels_mean --std 58.395,57.12,57.375
seen '[1, 3, 8, 8]' 0,0=2.2489083,-1.1428571,-1.8044444 -- --model fixed.safetensors --preprocess imagenet --mean $levels_mean --std 58.395,57.12,57.375
seen '[1, 3, 8, 8]' 0,0=2.2489083,-1.1428571,-1.8044444 -- --model fixed.safetensors --preprocess imagenet --mean $levels_mean
seen '[1, 3, 8, 8]' 0,0=0.515,-0.256,-0.406 -- --model fixed.safetensors --std 255 --mean $levels_mean
seen '[1, 3, 8, 8]' 0,0=0,-0.8,-1 -- --model fixed.safetensors --mean 1 --scale 1/255
seen '[1, 3, 4, 4]' 0,0=0,0,0 1,1=1,0.2,0 -- --model open.safetensors --size 4 --resize 2 --scale 1/255
# not square: what is made of the photograph has the input's proportions
seen '[1, 3, 8, 16]' 0,0=1,0.2,0 7,15=1,0.2,0 -- --model long.safetensors --scale 1/255
seen '[1, 3, 8, 12]' 0,0=1,0.2,0 7,11=1,0.2,0 -- --model known.safetensors --input-shape 1x3x8x12
seen '[1, 3, 16, 8]' 0,0=0,0,0 5,0=0,0,0 6,0=1,0.2,0 9,7=1,0.2,0 10,7=0,0,0 -- --model open.safetensors --input-shape 1x3x16x8 --fit letterbox
seen '[1, 3, 16, 8]' 0,0=1,0.2,0 15,7=1,0.2,0 -- --model open.safetensors --input-shape 1x3x16x8 --fit stretch
# by name, and a name with a part of its own
seen '[1, 3, 640, 640]' 0,0=0.4470588,0.4470588,0.4470588 160,0=1,0.2,0 479,639=1,0.2,0 480,0=0.4470588,0.4470588,0.4470588 -- \
  --model open.safetensors --preprocess yolo
seen '[1, 3, 16, 16]' 0,0=0,51,255 7,15=0,51,255 8,0=114,114,114 -- --model open.safetensors --preprocess yolox --size 16
seen '[1, 3, 8, 8]' 4,4=1,-0.6,-1 -- --model fixed.safetensors --preprocess symmetric
seen '[1, 3, 8, 8]' 4,4=0.5,-0.3,-0.5 -- --model fixed.safetensors --preprocess symmetric --std 1

# whole numbers are levels: what makes others is refused, not rounded
expect 0 '^  100.00 % +class 0' classify wide.ppm --model bytes.safetensors --scale 1
expect 0 '^    0.00 % +class 1' classify wide.ppm --model bytes.safetensors --scale 1
expect 1 'says? how a photograph becomes its input.*: --scale 1 gives it the levels' classify wide.ppm --model bytes.safetensors
for wrong in '--preprocess imagenet' '--preprocess symmetric' '--scale 1/255' '--scale 1 --mean 0.5' '--scale 2' '--mean 1'; do
  expect 2 'the input "x" takes whole numbers, u8,.* expected --scale 1 alone, got -?[0-9]' classify wide.ppm --model bytes.safetensors $wrong
done

# the layer that is shown is the model's own, whatever stands in front of it; so is that whose numbers are explained
expect 0 'wide.ppm: 16x8 -> r \[1, 2, 8, 16\]' features wide.ppm --model grey.safetensors --scale 1 --out g.png
expect 0 'wide.ppm: 16x8 -> r \[1, 2, 8, 16\]' features wide.ppm --model last.safetensors --scale 1 --out l.png
# grey: 0.299 * 255 + 0.587 * 51 = 106.182, nine of it; 0.5 * 9 * (255 + 51) = 1377
expect 0 'at 4,4 filter 0 gives 955\.6.*add up to 955\.6' features wide.ppm --model grey.safetensors --scale 1 --explain 4,4 --filter 0
expect 0 'at 4,4 filter 1 gives 1377 .*add up to 1377,' features wide.ppm --model last.safetensors --scale 1 --explain 4,4 --filter 1
check '--explain says nothing of other filters' test -z "$("$lamina" features wide.ppm --explain 4,4 --filter 54 2>&1 | grep strongest)"

# notes that are damaged are said to be, and the rest of them holds
expect 0 'warning: passed over: mean is not as exporters write it: "abc"$' segment wide.ppm --model noted.safetensors --scale 1
expect 0 '100.00 %  red$' segment wide.ppm --model noted.safetensors --scale 1  # names, one on each line
mkdir beside && cp "$source/tests/golden/detect/bare.onnx" beside/
echo '{"id2label": {"0": "a"' >beside/config.json
expect 0 'warning: passed over, beside the model: config.json: not valid JSON' inspect beside/bare.onnx

# convert keeps it, and every command that takes photographs takes it
expect 0 'wrote kept.safetensors' convert open.safetensors kept.safetensors --preprocess yolo --size 16 --fill 7
expect 0 'preprocess: long side to 16 without antialias, centre crop 16 on 7, 7, 7, levels / 255' inspect kept.safetensors --input-shape 1x3x16x16
seen '[1, 3, 16, 16]' 0,0=0.0274509,0.0274509,0.0274509 8,8=1,0.2,0 -- --model kept.safetensors
expect 0 'wide.ppm: 16x8 -> .*-> scores \[1, 3, 16, 16\]' segment wide.ppm --model open.safetensors --size 16 --fit letterbox --scale 1
expect 0 '100.00 %  class 2' segment wide.ppm --model open.safetensors --size 16 --bgr --mean 0 --std 1
expect 0 '100.00 %  class 0' segment wide.ppm --model open.safetensors --size 16 --mean 0 --std 1
expect 0 'fill' classify --help-all
expect 0 'letterbox' serve --help-all
for wrong in '--scale 0' '--scale x' '--scale 1/0' '--mean 1,2' '--std 0' '--fill 256' '--fill 0.5' '--fit squeeze' '--size 0' '--mean ,'; do
  expect 2 "^lamina: ${wrong%% *}: expected" run --model open.safetensors --input wide.ppm --out x.safetensors --size 6 $wrong
done
expect 2 'one of imagenet, .*; did you mean letterbox\?|one of crop, stretch, letterbox.*did you mean letterbox\?' features wide.ppm --fit leterbox
expect 2 'how a photograph becomes the input: seen.safetensors is none' run --model known.safetensors --input seen.safetensors --out x.safetensors --size 8

# --out for pictures and tensors alike; the old names still do
expect 0 'wrote maps.safetensors: seen \[1, 3, 8, 8\]' features wide.ppm --model fixed.safetensors --out maps.safetensors
check 'maps alone: no picture' test ! -e wide-features.png
expect 0 'wrote maps.png' features wide.ppm --model fixed.safetensors --out maps.safetensors --out maps.png
expect 0 'wrote old.safetensors' features wide.ppm --model fixed.safetensors --out maps.png --output-tensor old.safetensors
check 'the same maps' cmp maps.safetensors old.safetensors
expect 2 'out: a.png and b.png both name the pictures' features wide.ppm --model fixed.safetensors --out a.png --out b.png
expect 0 'wrote old.safetensors' run --model fixed.safetensors --input wide.ppm --output old.safetensors
expect 0 'wrote kept2.safetensors' convert open.safetensors --out kept2.safetensors
for command in run features; do
  check "$command --help shows no old name" test -z "$("$lamina" $command --help | grep -e '--output-tensor\|--output ')"
done

# --json: to a file, or to stdout, which then holds nothing else
json() {  # json PYTHON ARGUMENT...: what the expression says of the answer is true, from stdout and from a file
  local wanted=$1
  shift
  "$lamina" "$@" --json - 2>/dev/null >printed.json
  "$lamina" "$@" --json file.json >/dev/null 2>&1
  for file in printed.json file.json; do
    check "lamina $* --json: $wanted ($file)" python3 -c "import json; a = json.load(open('$file')); assert $wanted, a"
  done
}
json 'a["cpu"]["threads"] >= 1 and a["photographs"].startswith("PNG") and a["auto"]' doctor
json 'a["tensors"][0]["shape"] == [3, 3, 1, 1] and a["tensors"][0]["max"] == 1 and a["model"]["inputs"][0]["shape"] == ["N", 3, 8, 8]' \
  inspect fixed.safetensors
json 'a["model"]["preprocess"]["aspect"] == "letterbox" and a["model"]["nodes"][0]["op"] == "conv2d" and a["plan"]["activation_bytes"] > 0' \
  inspect kept.safetensors --input-shape 1x3x16x16
json 'a[0]["shape"] == [1, 3, 8, 8] and len(a[0]["values"]) == 192 and a[0]["values"][0] == 1' run --model fixed.safetensors --input wide.ppm
json 'a[0]["size"] == [8, 16] and a[0]["strongest"][0]["map"] == 0 and a[0]["layer"] == "seen"' \
  features wide.ppm --model fixed.safetensors --out maps.safetensors
json 'a["pass"] and a["comparisons"][0]["name"]' verify --model "$source/tests/golden/network.safetensors" \
  --golden "$source/tests/golden/network-golden.safetensors"
json 'a[0]["classes"][0]["probability"] > 0' classify "$source/weights/digits/7.png" --model "$source/weights/digits.safetensors"
json 'a[0]["classes"][0]["share"] > 0' segment wide.ppm --model open.safetensors --size 16 --out x.png
check 'nothing named is stdout, too' python3 -c 'import json, sys; json.load(sys.stdin)' < <("$lamina" doctor --json)
expect 2 'json: expected a file for the JSON, or - for stdout, got wide.ppm' classify --json wide.ppm --model "$source/weights/digits.safetensors"
expect 2 'json: expected a file for the JSON, or - for stdout, got net.safetensors, a model' classify wide.ppm --json net.safetensors
expect 2 'expected --out FILE or --json' run --model fixed.safetensors --input wide.ppm

# what was meant
expect 2 'there is no option -top; did you mean --top\?' classify wide.ppm -top 3
expect 2 'top is no photograph: .*did you mean --top\?' classify wide.ppm top 3
expect 2 '3 is no photograph: .*a number belongs behind an option' classify wide.ppm 3
expect 2 'top: given twice \(' classify wide.ppm --top 1 --top 2
expect 2 'model: given twice' classify wide.ppm --model digits --model digits
expect 2 'top: expected a value behind it' classify wide.ppm --top
expect 2 'csv: takes no value, got "yes"' classify wide.ppm --csv=yes
expect 2 'o.csv is no photograph.*--csv answers on stdout: --csv > o.csv' classify wide.ppm --csv o.csv --model digits
expect 2 'there is no option --csv of segment, but of classify' segment wide.ppm --csv
expect 2 'size: expected one number for both sides, got 64x128; --input-shape 1x3x64x128' run --model open.safetensors --input wide.ppm --out x.safetensors --size 64x128
for out in res.jepg res.gif -; do
  expect 2 'out: expected the name of a .png or a .jpg, or a folder, such as features/, got ' features wide.ppm --out $out
done
expect 0 'wrote new.d/wide-features.png' features wide.ppm --out new.d
expect 0 'wrote shown.maps/wide-features.png' features wide.ppm --out shown.maps/
expect 2 'expected photographs: files, folders' classify --top 1
expect 1 'cannot read none.txt: there is no such file' classify wide.ppm --model digits --labels none.txt
expect 2 'batch: expected a whole number .*got "1O"; did you mean 10\?' classify wide.ppm --batch 1O
finish
