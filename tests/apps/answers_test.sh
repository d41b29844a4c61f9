#!/usr/bin/env bash
# What the command says of a network's numbers: probabilities once, every input that is named, nothing that is not
# finite without a word; and of extents that are open.
#   answers_test.sh LAMINA SOURCE_DIR
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

python3 - <<'PY'
import json, struct
def write(path, tensors, metadata=None):
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, (shape, values) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * len(values)]}
        data += struct.pack(f"<{len(values)}f", *values)
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)
def model(path, nodes, shape, tensors=None, **metadata):
    graph = {"version": 1, "inputs": [{"name": "x", "shape": shape}], "nodes": nodes, "outputs": [nodes[-1]["name"]]}
    write(path, tensors or {}, {"lamina.graph": json.dumps(graph), **metadata})
def node(name, op, inputs, **attrs):
    return {"name": name, "op": op, "inputs": inputs, "attrs": attrs}
# The means of red, green and blue times w, and what follows.
def head(path, classes, end, side, values):
    nodes = [node("w", "Constant", []), node("m", "GlobalAveragePool", ["x"]), node("f", "Flatten", ["m"]), node("l", "MatMul", ["f", "w"])]
    nodes += [node("p", end, ["l"])] if end else []
    model(path, nodes + [node("y", "Identity", [nodes[-1]["name"]])], ["N", 3, side, side], {"w": ([3, classes], values)})
head("independent.safetensors", 3, "Sigmoid", 8, [9.0, 0.0, 0.0, 0.0, 9.0, 0.0, 0.0, 0.0, 9.0])
head("one.safetensors", 1, "Sigmoid", 8, [-9.0, -9.0, -9.0])
head("logit.safetensors", 1, None, 8, [1.0, 0.0, 0.0])
head("open.safetensors", 3, None, "?", [1.0] * 9)
for alike in (5, 6):
    head(f"thousand{alike}.safetensors", 1000, None, 8, [10.0] * alike + [0.0] * (3000 - alike))
model("default.safetensors", [node("k", "Constant", [], input=[3]), node("y", "Mul", ["x", "k"])], [3], {"k": ([3], [1.0, 2.0, 3.0])})
model("pooled.safetensors", [node("y", "GlobalAveragePool", ["x"])], ["N", 3, 8, 8], **{"lamina.labels": "red\ngreen\nblue"})
model("inverse.safetensors", [node("y", "Reciprocal", ["x"])], [3])
write("x.safetensors", {"x": ([3], [1.0] * 3)})
write("xk.safetensors", {"x": ([3], [1.0] * 3), "k": ([3], [4.0, 5.0, 6.0])})
write("golden.safetensors", {"x": ([3], [1.0] * 3), "k": ([3], [4.0, 5.0, 6.0]), "y": ([3], [4.0, 5.0, 6.0])})
write("k.safetensors", {"k": ([3], [4.0] * 3)})
write("other.safetensors", {"z": ([3], [1.0] * 3)})
write("more.safetensors", {"x": ([3], [1.0] * 3), "kk": ([3], [1.0] * 3)})
write("zero.safetensors", {"x": ([3], [0.0, 1.0, -0.0])})
open("white.ppm", "wb").write(b"P6 8 8 255\n" + b"\xff" * 192)
PY

# white is 1 in all channels: sigmoid(9) thrice, which a softmax would make a third each
levels='--fit stretch --scale 1/255 --mean 0 --std 1'
expect 0 'green$' classify white.ppm --model pooled.safetensors $levels  # [N, 3, 1, 1] is no map of three classes
expect 0 '^   99.99 %  class 2$' classify white.ppm --model independent.safetensors $levels
expect 0 '^  100.00 %  class 0$' classify white.ppm --model one.safetensors $levels
expect 0 '^    0.00 %  class 1$' classify white.ppm --model one.safetensors $levels
expect 0 '^  1  class 0$' classify white.ppm --model logit.safetensors $levels
expect 0 '^photo,rank,class,name,score$' classify white.ppm --model logit.safetensors $levels --csv
printf 'no\nyes\n' >two.txt
expect 0 '^  100.00 %  no$' classify white.ppm --model one.safetensors $levels --labels two.txt

# the page's words for a best class of less than 90 %, or of a thousand the five best, which may share it out
expect 0 '^white.ppm: not sure$' classify white.ppm --model open.safetensors $levels --size 8
expect 0 'open.safetensors is not sure of this photograph, .* [(]its best class has less than 90 %[)]$' classify white.ppm --model open.safetensors $levels --size 8
expect 0 '^white.ppm$' classify white.ppm --model thousand5.safetensors $levels --top 2
expect 0 '^   19.82 %  class 1$' classify white.ppm --model thousand5.safetensors $levels --top 2
expect 0 '[(]its 5 best classes have less than 90 % together[)]$' classify white.ppm --model thousand6.safetensors $levels --top 2
expect 0 '^white.ppm: not sure$' classify white.ppm --model thousand6.safetensors $levels --top 2
expect 0 '^white.ppm$' classify white.ppm --model one.safetensors $levels
expect 0 '^white.ppm$' classify white.ppm --model logit.safetensors $levels

# one output as NumPy has it, of several none
expect 0 'wrote y.npy' run --model one.safetensors --input white.ppm $levels --out y.npy
check 'it is an array' python3 -c 'import sys; data = open("y.npy", "rb").read(); sys.exit(data[:6] != b"\x93NUMPY" or b"(1, 1)" not in data)'
expect 2 'out: an .npy holds one array, and there are 2: l, p; --outputs names one' run --model one.safetensors --input white.ppm $levels --outputs l,p --out y.npy
expect 0 'pass: ' verify --model one.safetensors --against fp32 --precision bf16 --input white.ppm $levels --device cpu

# height and width that are open
expect 0 '^   33.33 %  class 2$' classify white.ppm --model open.safetensors $levels --size 8
seq 3 >three.txt
expect 0 '^   33.33 %  3$' classify white.ppm --model open.safetensors $levels --size 8 --labels three.txt
expect 0 'wrote named.safetensors' convert open.safetensors named.safetensors --labels three.txt
expect 2 'labels: two.txt: expected 3 labels, one for each class, got 2' convert open.safetensors unnamed.safetensors --labels two.txt
expect 0 '^x +input +\[N, 3, \?, \?\]' inspect open.safetensors
expect 0 'open: x \[N, 3, \?, \?\]; --input-shape' inspect open.safetensors
expect 0 '^y +Identity +\[1, 3\]' inspect open.safetensors --input-shape 1x3x8x8

# every input that is named counts, and every name is an input's
expect 0 '4.0,' run --model default.safetensors --input xk.safetensors --json
expect 0 '3.0' run --model default.safetensors --input x.safetensors --json
expect 0 'pass: 2 comparisons' verify --model default.safetensors --golden golden.safetensors
expect 1 'more.safetensors: the model has no input "kk"; nearest: "k"' run --model default.safetensors --input more.safetensors --json
for file in k other; do
  expect 1 "$file.safetensors: expected a tensor \"x\" for the model's input" run --model default.safetensors --input $file.safetensors --json
done

# what is not finite
expect 0 '^lamina: warning: y: 2 of its 3 numbers are NaN or infinite$' run --model inverse.safetensors --input zero.safetensors --out y.safetensors
expect 0 'y: 1 of its 3|^wrote y.safetensors$' run --model inverse.safetensors --input x.safetensors --out y.safetensors
check 'a finite answer without a word' test -z "$("$lamina" run --device cpu --model inverse.safetensors --input x.safetensors --out y.safetensors 2>&1 >/dev/null)"

# the service reads optional inputs too
if "$lamina" --help | grep -q '^  serve '; then
  python3 - "$lamina" "$source" "$work/default.safetensors" <<'PY' || failures=$((failures + 1))
import json, sys
sys.path.insert(0, sys.argv[2] + "/tests/apps")
from serving import Server
server = Server(sys.argv[1], sys.argv[2], "--model", sys.argv[3])
def ask(**inputs):
    inputs = [{"name": name, "datatype": "FP32", "shape": [len(data)], "data": data} for name, data in inputs.items()]
    status, answer = server.json("/v2/models/default/infer", json.dumps({"inputs": inputs}))
    return answer["outputs"][0]["data"] if status == 200 else status
found = [ask(x=[1, 1, 1]), ask(k=[4, 5, 6], x=[1, 1, 1]), ask(k=[4, 5, 6]), ask(x=[1, 1, 1], kk=[1]), ask(x=[1, 1, 1], k=[1])]
ports = server.json("/v2/models/default")[1]["inputs"]
server.stop()
assert found == [[1, 2, 3], [4, 5, 6], 400, 400, 400], found
assert [(port["name"], port["shape"], port.get("parameters")) for port in ports] == [("x", [3], None), ("k", [3], {"optional": True})], ports
PY
fi

finish
