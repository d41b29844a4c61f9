#!/usr/bin/env bash
# lamina quantize: what it writes, says and refuses.
#   quantize_test.sh LAMINA SOURCE_DIR
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"
if ! "$lamina" --help | grep -q '^  quantize '; then
  echo "built with LAMINA_QUANTIZE=OFF"
  exit 77
fi
digits=$source/weights/digits.safetensors
cp "$source"/weights/digits/*.png .

expect 0 'wrote d8.safetensors: 8 of 8 layers in eight bits; on 2 photographs held back .*, 2 of 2 keep their best class; so few tell little' quantize "$digits" [0-9].png --out d8.safetensors
expect 0 'seven' classify 7.png --model d8.safetensors
check 'it is smaller' test "$(wc -c <d8.safetensors)" -lt "$(($(wc -c <"$digits") / 2))"
expect 0 'left in floats: its error' quantize "$digits" [0-9].png --out some.safetensors --max-error 0.003 --json some.json
"$lamina" quantize "$digits" [0-9].png --out some.safetensors --calibration percentile --plain --json - >p.json
check 'JSON says the same' python3 - <<'EOF2'
import json
some, p = json.load(open("some.json")), json.load(open("p.json"))
assert some["error"] <= 0.003 and 0 < sum(layer["quantized"] for layer in some["layers"]) < 8
assert all(layer["quantized"] and layer["error"] > 0 for layer in p["layers"]) and p["agreement"] == 1
EOF2

# outputs off by as much as they are large: the difference of two values that are nearly alike
python3 - "$source" <<'EOF3'
import pathlib, struct, sys
from types import SimpleNamespace
sys.path.insert(0, sys.argv[1] + "/python/tests")
import onnx_writer as onnx
def numbers(shape, *values):
    return SimpleNamespace(shape=shape, dtype=SimpleNamespace(name="float32"), tobytes=lambda: struct.pack(f"<{len(values)}f", *values))
onnx.write(pathlib.Path("difference.onnx"),
           [onnx.node("Conv", ["x", "w"], "c"), onnx.node("Relu", ["c"], "r"), onnx.node("Conv", ["r", "v"], "y")],
           [("x", "float32", ["N", 3, 32, 32])], [("y", "float32", ["N", 1, 32, 32])],
           {"w": numbers([2, 3, 1, 1], 1, 1, 1, 1.001, 1.001, 1.001), "v": numbers([1, 2, 1, 1], 1, -1)})
EOF3
difference=(quantize difference.onnx [0-9].png --preprocess imagenet --out difference.safetensors)
expect 1 'the outputs are off by .* times what they are: nothing was written; .*--force writes it' "${difference[@]}"
check 'and nothing was' test ! -e difference.safetensors
expect 0 'wrote difference.safetensors' "${difference[@]}" --force

# what cannot be
expect 1 'd8.safetensors: quantize: the model is quantised already: ' quantize d8.safetensors 7.png --out again.safetensors
expect 1 'no layer stays in eight bits' quantize "$digits" [0-9].png --out no.safetensors --max-error 1e-9
expect 2 'ends in .safetensors or .onnx' quantize "$digits" absent.png --out x.tflite
expect 1 'only photograph, not held back .* 1 of 1 keep' quantize "$digits" 7.png broken.png --out one.safetensors
expect 2 'net8.txt|minmax' quantize "$digits" 7.png --out n.safetensors --calibration entropy
head -c 40 7.png >broken.png
expect 1 'broken.png: ' quantize "$digits" broken.png 7.png 1.png --out two.safetensors
check 'the others were used' test -s two.safetensors
expect 1 'no photograph could be read' quantize "$digits" broken.png --out none.safetensors
expect 1 'no such file' quantize "$digits" absent.png --out none.safetensors
check 'nothing was written' test ! -e again.safetensors -a ! -e no.safetensors -a ! -e none.safetensors
finish
