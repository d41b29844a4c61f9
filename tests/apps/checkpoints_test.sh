#!/usr/bin/env bash
# Weights as training scripts leave them: under keys, behind prefixes, beside objects, in .npz.
#   checkpoints_test.sh LAMINA SOURCE_DIR
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"
digits=$source/weights/digits.safetensors
three=$source/weights/digits/3.png

python3 - "$digits" "$source" <<'EOF'
"""The digits' weights as PyTorch would save them, without PyTorch; and as numpy.savez would, without NumPy."""
import argparse, collections, json, pathlib, struct, sys, zipfile

sys.path.insert(0, sys.argv[2] + "/python/tests")
from torch_writer import Tensor, save

data = open(sys.argv[1], "rb").read()
length = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + length])
header.pop("__metadata__")
arrays = {name: (entry["shape"], data[8 + length + entry["data_offsets"][0]:8 + length + entry["data_offsets"][1]])
          for name, entry in header.items()}

def weights(prefix="", scale=None):
    return collections.OrderedDict(
        (prefix + name, Tensor(shape, bytes(len(b)) if scale == 0 else b)) for name, (shape, b) in arrays.items())

class Attack:
    def __reduce__(self):
        import os
        return os.system, ("touch attacked",)

save("model.pth", {"epoch": 3, "model": weights(), "args": argparse.Namespace(lr=0.1, data=pathlib.PurePosixPath("/data")),
                   "seen": {1, 2}, "history": collections.defaultdict(list, loss=[0.5])})
save("two.pth", {"model": weights(scale=0), "ema": weights()})
save("gan.pth", {"generator": weights(), "discriminator": weights(scale=0)})
save("compiled.pth", {"state_dict": weights("_orig_mod.module.")})
save("lightning.pth", {"state_dict": weights("model.")})
save("backbone.pth", {**weights("backbone."), "head.weight": Tensor([1], bytes(4))})
save("object.pth", argparse.Namespace(model=weights()))
save("attack.pth", {"model": weights(), "config": Attack()})
with zipfile.ZipFile("digits.npz", "w") as archive, zipfile.ZipFile("packed.npz", "w", zipfile.ZIP_DEFLATED) as packed:
    for name, (shape, bytes_) in arrays.items():
        text = str({"descr": "<f4", "fortran_order": False, "shape": tuple(shape)}).encode()
        text += b" " * (63 - (10 + len(text)) % 64) + b"\n"
        for file in archive, packed:
            file.writestr(name + ".npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + bytes_)
EOF

classifies() {  # classifies WHAT_STDERR_SAYS ARGUMENT...: as a three
  local words=$1
  shift
  expect 0 '%  three' classify "$three" --model "$digits" --weights "$@"
  "$lamina" classify "$three" --device cpu --model "$digits" --weights "$@" >/dev/null 2>said.txt
  check "--weights $* says \"$words\", said: $(cat said.txt)" grep -qE -- "${words:-^$}" <(cat said.txt; [ -s said.txt ] || echo)
}
classifies 'model.pth: the weights are those under "model"$' model.pth
classifies 'under "generator"|^$' gan.pth --key generator
classifies 'the weights are those under "state_dict"' compiled.pth
classifies 'the names are those after "_orig_mod.module."' compiled.pth
classifies 'lightning.pth: the names are those after "model."' lightning.pth
classifies '' two.pth --key ema
classifies 'does not use tensor "head.weight"' backbone.pth --strip-prefix backbone.
classifies '' digits.npz
expect 0 'under "model"; there are also "ema" \(16 tensors\): choose with --key' inspect two.pth
expect 0 '^head.weight ' inspect backbone.pth --strip-prefix backbone.
expect 1 'gan.pth: there are weights under "generator" \(16 tensors\), "discriminator" \(16 tensors\): choose with --key' \
  classify "$three" --model "$digits" --weights gan.pth
expect 2 'no weights under the key "emma"; there are "model" \(16 tensors\), "ema"' inspect two.pth --key emma
expect 1 'what fits begins with "backbone.".*--strip-prefix' classify "$three" --model "$digits" --weights backbone.pth
expect 2 'no name begins with "neck."' inspect backbone.pth --strip-prefix neck.
expect 2 'a prefix ends with one, "backbone."' inspect backbone.pth --strip-prefix backbone
expect 1 'calls argparse.Namespace; nothing was executed. Save the weights alone' inspect object.pth
expect 1 'system".*nothing was executed' inspect attack.pth
check 'nothing was executed' test ! -e attacked
expect 1 '"classifier.1.bias.npy" is compressed.*numpy.savez_compressed not' inspect packed.npz
expect 2 '--key and --strip-prefix say how --weights are read' classify "$three" --model "$digits" --key ema
expect 2 'expected a PyTorch checkpoint, for its key "ema"' inspect digits.npz --key ema

# convert
expect 0 'wrote ema.safetensors: 16 tensors' convert two.pth ema.safetensors --key ema
expect 0 '%  three' classify "$three" --model "$digits" --weights ema.safetensors
expect 0 'wrote plain.safetensors: 17 tensors' convert backbone.pth plain.safetensors --strip-prefix backbone.
expect 0 '^features.0.weight ' inspect plain.safetensors
for name in y.onnx y.npz y.engine y.tar y.unheard-of; do
  expect 2 "expected a name that ends in .safetensors, which is what is written, got $name" convert model.pth $name
  check "no $name" test ! -e $name
done
expect 0 'wrote y:' convert model.pth y
for command in classify convert inspect run segment verify; do
  expect 0 '--strip-prefix' $command --help-all
done
finish
