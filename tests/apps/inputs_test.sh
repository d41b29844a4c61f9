#!/usr/bin/env bash
# What a file does not say of a network's inputs, the command line does, for every command that compiles: shapes, how many
# dimensions there are, and values that shapes depend on.
#   inputs_test.sh LAMINA SOURCE_DIR
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"
net=$source/tests/golden/open_shape.onnx  # y = Reshape(Relu(x), shape), where x is of any rank

python3 - "$source" <<'EOF'
import json, pathlib, struct, sys
from types import SimpleNamespace
sys.path.insert(0, sys.argv[1] + "/python/tests")
import onnx_writer as onnx

def npy(path, kind, shape, *values):
    text = str({"descr": kind, "fortran_order": False, "shape": shape}).ljust(117).encode() + b"\n"
    data = struct.pack(f"<{len(values)}{'f' if kind == '<f4' else 'q'}", *values)
    pathlib.Path(path).write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + data)
    return data

x, shape = npy("x.npy", "<f4", (2, 3), -1, 1, 2, 3, 4, 5), npy("shape.npy", "<i8", (2,), 3, 2)
header = json.dumps({"x": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
                     "shape": {"dtype": "I64", "shape": [2], "data_offsets": [24, 40]}}).encode()
pathlib.Path("both.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + x + shape)

number = lambda value: SimpleNamespace(shape=[1], dtype=SimpleNamespace(name="int64"), tobytes=lambda: struct.pack("<q", value))
onnx.write(pathlib.Path("photos.onnx"),
           [onnx.node("Shape", ["image"], "s"), onnx.node("Slice", ["s", "begin", "end"], "front"),
            onnx.node("Concat", ["front", "sizes"], "extents", axis=0), onnx.node("Resize", ["image", "", "", "extents"], "r"),
            onnx.node("GlobalAveragePool", ["r"], "p"), onnx.node("Flatten", ["p"], "y", axis=1)],
           [("image", "float32", None), ("sizes", "int64", [2])], [("y", "float32", None)],
           {"begin": number(0), "end": number(2)})
npy("n.npy", "<i8", (1,), 3)
onnx.write(pathlib.Path("sized.onnx"), [onnx.node("ConstantOfShape", ["n"], "y")], [("n", "int64", [1])], [("y", "float32", None)], {})
EOF

# Each thing that is missing is asked for by the option that gives it.
expect 1 'x: its shape \[\.\.\.\] is open; --input-shape gives it' inspect "$net" --plan
expect 1 'depends on input "shape"; give its value as --constant NAME=VALUE' inspect "$net" --plan --input-shape x=2x3
expect 0 'open: x \[\.\.\.\]; --input-shape' inspect "$net" --constant shape=3,2

said=(--input-shape x=2x3 --constant shape=3,2)
expect 0 'y.*\[3, 2\]' inspect "$net" "${said[@]}"
expect 0 'y.*\[3, 2\]' inspect "$net" --input-shape 2x3 --constant shape=-1,2  # of one input that is left
expect 0 '"shape": *\[' inspect "$net" "${said[@]}" --json
expect 0 'y: f32 \[3, 2\]' run --model "$net" "${said[@]}" --input x.npy --out y.safetensors
expect 0 'y: f32 \[3, 2\]' run --model "$net" --constant shape=shape.npy --input x.npy --out y.safetensors
expect 0 'y: f32 \[3, 2\]' run --model "$net" --input both.safetensors --out y.safetensors
expect 0 'y' verify --model "$net" "${said[@]}" --against bf16 --device cpu
expect 0 'a whole run of batch 1' bench model --model "$net" "${said[@]}" --device cpu --seconds 0.01
expect 0 '%' classify "$photo" --model photos.onnx --preprocess imagenet --input-shape Nx3x224x224 --constant sizes=8,8
expect 0 '%' classify "$photo" --model photos.onnx --preprocess imagenet --input-shape 1x3x64x64 --constant sizes=8,8

# Of a number that sizes are made of the most may be known.
expect 0 'y: f32 \[3\]' run --model sized.onnx --capacity n=4 --input n.npy --out y.safetensors
expect 1 'this run has 3 along an axis where there is room for 2' run --model sized.onnx --capacity n=2 --input n.npy --out y.safetensors
expect 0 'y.*\[4\]' inspect sized.onnx --capacity n=4
expect 2 '--capacity: expected NAME=K, got "n=many"' inspect sized.onnx --plan --capacity n=many
expect 2 '--capacity: the graph has no node "m"; nearest: "n"' inspect sized.onnx --plan --capacity m=4

# A file that is to be opened by others gets them once for all.
expect 0 'wrote' convert "$net" open.safetensors
expect 0 'y: f32 \[3, 2\]' run --model open.safetensors "${said[@]}" --input x.npy --out y.safetensors
expect 0 'wrote' convert "$net" fixed.safetensors "${said[@]}"
expect 0 'y: f32 \[3, 2\]' run --model fixed.safetensors --input x.npy --out y.safetensors

expect 2 '--constant shape: expected \[2\], got 3 numbers' inspect "$net" --constant shape=3,2,1
expect 2 '--constant shape: expected whole numbers with commas between, or a tensor file, got "3,b"' inspect "$net" --constant shape=3,b
expect 2 '--constant: the model has no input "shapes"; nearest: "shape"' inspect "$net" --constant shapes=3,2
expect 2 '--constant: expected NAME=VALUE, got "shape"' inspect "$net" --constant shape
expect 1 'x.npy: expected \[2\] for input "shape", got \[2, 3\]' inspect "$net" --constant shape=x.npy
if "$lamina" serve --help >/dev/null 2>&1; then
  expect 1 'x: its shape \[\.\.\.\] is open; lamina convert --input-shape gives it' serve --model "$net" --port 0
  expect 0 'wrote' convert "$net" ranked.safetensors --input-shape x=2x3
  expect 1 'give its value as lamina convert --constant NAME=VALUE' serve --model ranked.safetensors --port 0
fi
# A classifier in the user's data folder is the one where none is named, and has a name there.
export XDG_DATA_HOME=$work/data
expect 1 'http://x/a.jpg: Lamina opens no addresses; download it first' classify http://x/a.jpg --model digits
expect 1 'cannot read http://x/a.onnx: Lamina opens no addresses; download it first' inspect http://x/a.onnx
expect 2 'expected another argument, the .safetensors file to write' convert "$source/weights/digits.safetensors"
expect 2 'confidence: expected a number from 0 to 1, got "1.5" ' detect "$source/docs/images/chelsea.png" --model x.onnx --confidence 1.5
expect 2 'got "15"; did you mean 0.15' detect "$source/docs/images/chelsea.png" --model x.onnx --confidence 15
expect 2 'there are "features.0", "features.1"' features "$source/docs/images/chelsea.png" --model digits --layer zzzzzzzzzzzz --out f.png
expect 2 'expected --model FILE .*`scripts/get_classifier.sh` in a clone of Lamina brings one' classify "$source/weights/digits/7.png"
mkdir -p data/lamina
cp "$source/weights/digits.safetensors" data/lamina/classifier.safetensors
expect 0 '100.00 %  seven' classify "$source/weights/digits/7.png"
expect 0 'classifier.6' inspect classifier
expect 1 'cannot read classifiers' inspect classifiers
XDG_DATA_HOME=  HOME=$work/home expect 2 'expected --model FILE' classify "$source/weights/digits/7.png"
mkdir -p home/.local/share && cp -r data/lamina home/.local/share
XDG_DATA_HOME=  HOME=$work/home expect 0 '100.00 %  seven' classify "$source/weights/digits/7.png"
# models by names that are none
expect 1 'cannot read clasifier: there is no such file, and no model of that name; nearest: "classifier"' classify "$photo" --model clasifier
expect 1 'resnet18 is a network without weights: --arch resnet18 --weights FILE' classify "$photo" --model resnet18
XDG_DATA_HOME=$work/none expect 1 'no model of that name; there are "digits", "alexnet-conv1"$' classify "$photo" --model clasifier
XDG_DATA_HOME=$work/none expect 1 'classifier: `scripts/get_classifier.sh` in a clone of Lamina brings it' classify "$photo" --model classifier
expect 2 'weights w.pth needs --arch NETWORK, of alexnet, ' classify "$photo" --weights w.pth

# what the parser finds wrong
expect 2 'csv: not with --json|json: not with --csv' classify "$photo" --json --csv
expect 2 'top: expected a value behind it' classify "$photo" --top
expect 2 'expected a command \(lamina bench --help' bench
expect 2 '^lamina: expected --out FILE \(' quantize "$net" "$photo"
expect 2 '^lamina: expected a file \(' inspect
expect 2 'expected --golden or --against' verify --model digits
expect 2 'net.onnx stands alone: files are behind options here, --model net.onnx' verify net.onnx --against fp32
expect 2 'x.png stands alone: files are behind options here, --input x.png' run digits x.png
expect 2 '3 stands alone: this command takes no file or value of that kind' doctor 3
# what is called otherwise elsewhere, and a file in the place of a command
expect 2 'there is no option --half; did you mean --precision fp16\?' classify "$photo" --half
expect 2 'there is no option --output; did you mean --json\?' classify "$photo" --output x.json
expect 2 'there is no option --output; did you mean --out\?' features "$photo" --output x.png
expect 2 'there is no option --imgsz; did you mean --size\?' classify "$photo" --imgsz 224
expect 2 'there is no option -m; did you mean --model\?' classify "$photo" -m digits
expect 2 'there is no option --image: files stand without one, as in classify FILE' classify --image "$photo"
expect 2 'there is no option --model: files stand without one, as in inspect FILE' inspect --model digits
expect 2 'there is no option -x; did you mean ' classify "$photo" -x
expect 2 'did you mean lamina classify .*png\?' "$photo"
expect 2 'did you mean lamina inspect .*/digits.safetensors\?' "$source/weights/digits.safetensors"
expect 2 'seconds: expected a number from 0.01 to 60, got "90"' bench model --model digits --seconds 90

finish
