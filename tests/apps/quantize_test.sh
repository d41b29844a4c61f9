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

# what cannot be
expect 1 'd8.safetensors: quantize: the model is quantised already: ' quantize d8.safetensors 7.png --out again.safetensors
expect 1 'no layer stays in eight bits' quantize "$digits" [0-9].png --out no.safetensors --max-error 1e-9
expect 1 'ends in .safetensors or .onnx' quantize "$digits" absent.png --out x.tflite
expect 1 'only photograph, not held back .* 1 of 1 keep' quantize "$digits" 7.png broken.png --out one.safetensors
expect 2 'net8.txt|minmax' quantize "$digits" 7.png --out n.safetensors --calibration entropy
head -c 40 7.png >broken.png
expect 1 'broken.png: ' quantize "$digits" broken.png 7.png 1.png --out two.safetensors
check 'the others were used' test -s two.safetensors
expect 1 'no photograph could be read' quantize "$digits" broken.png --out none.safetensors
expect 1 'no such file' quantize "$digits" absent.png --out none.safetensors
check 'nothing was written' test ! -e again.safetensors -a ! -e no.safetensors -a ! -e none.safetensors
finish
