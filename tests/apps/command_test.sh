#!/usr/bin/env bash
# Uses the lamina command as people do, right and wrong, and checks what it says, writes and returns.
#   command_test.sh LAMINA SOURCE_DIR
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

# help and versions
expect 0 '^lamina [0-9]+\.[0-9]+\.[0-9]+$' --version
expect 0 'features' --help
commands=(features classify detect segment run verify inspect convert quantize doctor 'bench conv2d' 'bench model')
if "$lamina" --help | grep -q '^  serve '; then commands+=(serve); fi
for command in "${commands[@]}"; do
  # shellcheck disable=SC2086
  expect 0 'Example' $command --help
  check "each example of $command has a line of its own" test -z "$("$lamina" $command --help | grep -E '^  .+  (lamina|curl) ')"
  for path in $("$lamina" $command --help | grep -oE '(weights|docs|tests)/[A-Za-z0-9_./-]+'); do
    check "$path, named by $command --help, is there" test -e "$source/$path"
  done
done

# usage errors
expect 2 'Usage: lamina'
expect 2 'no command "clasify"; did you mean classify' clasify photo.png
expect 2 'no command "modle"; did you mean model' bench modle
expect 2 '' --nonsense
expect 2 'no option --thread; did you mean --threads\? \(lamina features --help' features "$photo" --thread 2
expect 2 'no option --algo; did you mean --algorithm\?' features "$photo" --algo direct
expect 0 'help-all shows these too, which few need: --as-stored' classify --help
check 'few options in --help' test -z "$("$lamina" classify --help | grep -e '--strip-prefix PREFIX')"
expect 0 'strip-prefix PREFIX' classify --help-all
expect 2 'no option --batches; did you mean --batch\? \(lamina bench model --help' bench model --batches=2
expect 2 'no option --confide; did you mean --confidence' detect "$photo" --confide 0.5
expect 2 'tol: expected a number from 0 to inf, got "-1" ' verify --model "$model" --atol -1
expect 0 'digits.safetensors: 16 tensors' inspect digits
expect 2 'labels: .*imagenet_classes.txt: expected 10 labels, one for each class, got 1000$' convert digits named.safetensors --labels imagenet
mkdir -p alone && cp "$lamina" alone/
check 'a command without weights/ says where it looked' grep -q 'digits.safetensors, which ships with Lamina, is in none of weights, .*share/lamina' \
  <<<"$(cd alone && ./lamina inspect digits 2>&1)"
expect 2 'no option --label;' run --label x
expect 2 '\(lamina bench conv2d --help' bench conv2d --size none
expect 2 'expected --out FILE or --json' run --model "$model"
expect 2 'lamina: --precision: expected one of fp32, tf32, fp16, bf16; got "fp8"' features "$photo" --model "$model" --precision fp8
expect 2 'algorithm' features "$photo" --model "$model" --algorithm fastest
expect 2 'device: expected .*got "tpu" \(' features "$photo" --model "$model" --device tpu
expect 2 'got "cpu,cpu"' features "$photo" --model "$model" --device cpu,cpu
expect 2 'several with commas between, or cuda:all, got "cpu,tpu"' classify "$photo" --model "$model" --device cpu,tpu
expect 2 'threads' features "$photo" --model "$model" --threads -3

# features
expect 0 'features.1 \[1, 96, 55, 55\].*layer' features "$photo" --model "$model" --out cat.png --output-tensor maps.safetensors
check 'the picture is a PNG' grep -q PNG <(head -c 8 cat.png)
expect 0 'features.1 +f32 +\[1, 96, 55, 55\]' inspect maps.safetensors
mkdir photos && cp "$source"/docs/images/*.png photos/
expect 0 'rocket|coffee' features photos --model "$model" --out pictures --output-tensor maps.safetensors
check 'a picture for each photo' test "$(ls pictures | wc -l)" -eq 3
expect 0 '\[3, 96, 55, 55\]' inspect maps.safetensors

# a broken photo is reported and skipped
head -c 5000 "$photo" >photos/broken.png
expect 1 'broken.png' features photos --model "$model" --out pictures2
check 'the others were still done' test "$(ls pictures2 | wc -l)" -eq 3
# bad input
expect 1 'missing.png' features missing.png --model "$model"
printf 'x' >file
expect 1 '^lamina: cannot make the folder file/sub of --out: ' features "$photo" --model "$model" --out file/sub
mkdir empty
expect 1 'no photographs' features empty --model "$model"
expect 1 'missing.safetensors' features "$photo" --model missing.safetensors
expect 2 'out: expected the name of a .png or a .jpg, or a folder, such as features/, got cat.webp' features "$photo" --model "$model" --out cat.webp
check 'no directory of that name' test ! -e cat.webp
expect 1 'holds weights without a graph' features "$photo" --model "$source/tests/golden/files/c_b1.npy"
expect 2 'folder' features photos/astronaut.png photos/chelsea.png --model "$model" --out one.png
printf 'not a model' >garbage
expect 1 'garbage' features "$photo" --model garbage
expect 1 'garbage' inspect garbage
expect 1 'garbage' features garbage --model "$model"
: >nothing.png
expect 1 'nothing.png' features nothing.png --model "$model"

# an output that cannot be written leaves nothing, and an old one intact
expect 2 'there is no folder "no/such/directory"' features "$photo" --model "$model" --out no/such/directory/x.png
cp cat.png kept.png
expect 2 'fp16' features "$photo" --model "$model" --device cpu --precision fp16 --out kept.png
check 'the old picture is intact' cmp -s cat.png kept.png

# run, and verify of its own results: every algorithm of the CPU agrees with the plain loops
expect 0 'wrote' run --model "$model" --input "$photo" --output direct.safetensors --device cpu --algorithm direct
for algorithm in eigen im2col; do
  expect 0 'wrote' run --model "$model" --input "$photo" --output out.safetensors --device cpu --algorithm "$algorithm" --threads 3
done
expect 2 'no/such' run --model "$model" --input "$photo" --output no/such/out.safetensors
expect 1 'input' run --model "$model" --input out.safetensors --output x.safetensors
expect 2 'expected a name that ends in .safetensors' run --model "$model" --input "$photo" --output x.npz
check 'nothing was written' test ! -e x.npz
python3 - <<'EOF'
import struct
def npy(path, shape):
    header = repr({"descr": "<f4", "fortran_order": False, "shape": shape}).ljust(117) + "\n"
    size = 4
    for extent in shape: size *= extent
    open(path, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(size))
npy("flat.npy", (3, 224, 224))
npy("small.npy", (1, 3, 100, 100))
EOF
expect 1 'flat.npy: expected \[N, 3, 224, 224\] for input "input", got \[3, 224, 224\]' run --model "$model" --input flat.npy --output x.safetensors
expect 1 'expected \[N, 3, 224, 224\].*got \[1, 3, 100, 100\]' run --model "$model" --input small.npy --output x.safetensors
check 'nothing was written' test ! -e x.safetensors

# verify against PyTorch's values
golden=$source/tests/golden
expect 0 'pass: [0-9]+ comparisons' verify --model "$golden/network.safetensors" --golden "$golden/network-golden.safetensors"
expect 1 'FAIL.*first to diverge is' verify --model "$golden/network.safetensors" --golden "$golden/network-wrong.safetensors"
expect 1 'names no node of the graph.*it holds .*; the nodes are ' verify --model "$golden/network.safetensors" --golden "$golden/network-inputs.safetensors"

# verify against its own outputs in another precision
expect 0 'bf16 .* pass .*max error' verify --model "$golden/network.safetensors" --against fp32 --device cpu
expect 1 'FAIL: the first to diverge is .*bf16' verify --model "$golden/network.safetensors" --against fp32 --device cpu --atol 0 --rtol 0
expect 2 'golden|against' verify --model "$golden/network.safetensors"

# verify's tolerance is in proportion to the tensor: elements near 0 of a large one may be a little off, not more
python3 - <<'EOF'
import json, struct
def write(path, tensors, metadata=None):
    header, begin = {"__metadata__": metadata} if metadata else {}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": "F32", "shape": [1, len(values)], "data_offsets": [begin, begin + 4 * len(values)]}
        begin += 4 * len(values)
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + b"".join(struct.pack(f"<{len(v)}f", *v) for v in tensors.values()))
graph = {"version": 1, "inputs": [{"name": "x", "dtype": "f32", "shape": ["N", 4]}],
         "nodes": [{"name": "y", "op": "relu", "inputs": ["x"]}], "outputs": ["y"]}
write("relu.safetensors", {}, {"lamina.graph": json.dumps(graph)})
for scale in 1e-4, 1e4:  # the root mean square is half of the first element
    for off in 1e-5, 2e-5:
        write(f"off-{off}-{scale}.safetensors", {"x": [scale, 0, 0, 0], "y": [scale, off * scale, 0, 0]})
write("nan.safetensors", {"x": [1, 2, 3, 4], "y": [1, float("nan"), 3, 4]})
write("misspelt.safetensors", {"x": [1, 2, 3, 4], "y": [1, 2, 3, 4], "yy": [1, 2, 3, 5]})
EOF
for scale in 0.0001 10000.0; do
  expect 0 'pass: 2 comparisons' verify --model relu.safetensors --golden "off-1e-05-$scale.safetensors"
  expect 1 'FAIL.*1 of 4 elements differ, first at .0, 1.' verify --model relu.safetensors --golden "off-2e-05-$scale.safetensors"
  expect 0 'pass' verify --model relu.safetensors --golden "off-2e-05-$scale.safetensors" --atol 1e-4
  expect 1 'FAIL' verify --model relu.safetensors --golden "off-1e-05-$scale.safetensors" --atol 0
done
expect 1 'FAIL.*1 of 4 elements differ' verify --model relu.safetensors --golden nan.safetensors
expect 1 'misspelt.safetensors: the model has no input and no node "yy"; nearest: "y"' verify --model relu.safetensors --golden misspelt.safetensors

for network in layers tiny-alexnet tiny-resnet exported; do
  expect 0 'pass: [0-9]+ comparisons' verify --model "$golden/$network.safetensors" --golden "$golden/$network-golden.safetensors"
done

# classify: as PyTorch does, one at a time and in batches, with the classes' names
classifier=$golden/tiny-classifier.safetensors
same_answers() {  # same_answers FILE: its CSV says what PyTorch found
  python3 - "$1" "$golden/tiny-classifier.csv" <<'EOF'
import csv, os, sys
mine = [(os.path.basename(r["photo"]), r["rank"], r["class"], float(r["probability"])) for r in csv.DictReader(open(sys.argv[1]))]
golden = [(r["photo"], r["rank"], r["class"], float(r["probability"])) for r in csv.DictReader(open(sys.argv[2]))]
sys.exit(not (len(mine) == len(golden) and all(a[:3] == b[:3] and abs(a[3] - b[3]) < 1e-5 for a, b in zip(mine, golden))))
EOF
}
for batch in 1 2 16; do
  "$lamina" classify "$source"/docs/images/*.png --model "$classifier" --top 3 --csv --batch "$batch" >answers.csv 2>/dev/null
  check "classify agrees with PyTorch in batches of $batch" same_answers answers.csv
done
expect 0 '[0-9.]+ %  (cat|cup|rocket|person|nothing)' classify "$photo" --model "$classifier"
expect 2 'a device is named twice' classify "$photo" --model "$classifier" --device cpu,cpu
expect 1 'cuda:99 ' classify "$photo" --model "$classifier" --device cuda:99
expect 1 'broken.png' classify photos --model "$classifier"
expect 1 '3 of 4 photographs classified' classify photos --model "$classifier"
check 'JSON with the error of the broken one' python3 -c 'import json,sys; d=json.load(sys.stdin); assert len(d)==4 and sum("error" in a for a in d)==1' \
  < <("$lamina" classify photos --model "$classifier" --json 2>/dev/null)
printf 'a\nb\n' >labels.txt
expect 2 'labels.txt: expected 5 labels.*got 2' classify "$photo" --model "$classifier" --labels labels.txt
expect 1 'preprocess' classify "$photo" --model "$golden/tiny-alexnet.safetensors"
expect 2 'expected --model FILE.*which ships.*https://' classify "$photo"
expect 0 '100.00 %  seven' classify "$source/weights/digits/7.png" --model digits
expect 1 'cannot read ../digits' classify "$photo" --model ../digits
expect 2 'arch alexnet needs its weights' classify "$photo" --arch alexnet
expect 1 'none of its 102 parameters is among the 2 of the file; there are "features.0.bias", "features.0.weight"$' classify "$photo" --arch resnet18 --weights "$model"
expect 1 'do not fit' classify "$photo" --arch alexnet --weights "$classifier"
expect 2 'arch: expected one of alexnet, .*; got "lenet"' classify "$photo" --arch lenet --weights "$classifier"
expect 2 ': not with --' classify "$photo" --model "$classifier" --json --csv

# checkpoints of other networks are named; zeros in sparse files stand for the weights
python3 - "$golden/network-keys.txt" <<'EOF'
import json, math, struct, sys
def write(path, shapes):
    header, begin = {}, 0
    for name, shape in shapes.items():
        size = 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, begin + size]}
        begin += size
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + begin)
networks = {}
for line in open(sys.argv[1]):
    if line.strip() and not line.startswith("#"):
        network, key, *shape = line.replace(",", " ").replace("[", " ").replace("]", " ").split()
        networks.setdefault(network, {})[key] = [int(extent) for extent in shape]
for name in "alexnet", "resnet18":
    write(f"{name}.zeros", networks[name])
caffe = {"conv1": [96, 3, 11, 11], "conv2": [256, 48, 5, 5], "conv3": [384, 256, 3, 3], "conv4": [384, 192, 3, 3],
         "conv5": [256, 192, 3, 3], "fc6": [4096, 9216], "fc7": [4096, 4096], "fc8": [1000, 4096]}
write("caffe.zeros", {f"{n}.{p}": s if p == "weight" else s[:1] for n, s in caffe.items() for p in ("weight", "bias")})
write("resnet50.zeros", {"layer3.5.conv3.weight": [1]})
open("labels1000.txt", "w").write("\n".join(f"name {i}" for i in range(1000)))
open("labels1001.txt", "w").write("\n".join(f"name {i}" for i in range(1001)))
EOF
expect 0 '0.10 %  name 0' classify "$photo" --arch alexnet --weights alexnet.zeros --labels labels1000.txt
expect 0 'and the graph' convert alexnet.zeros named.safetensors --arch alexnet
expect 0 'labels: 1000, from "tench" to' inspect named.safetensors
expect 0 '0.10 %  tench' classify "$photo" --arch alexnet --weights alexnet.zeros
expect 2 'expected 1000 labels, one for each class, got 1001' classify "$photo" --arch alexnet --weights alexnet.zeros --labels labels1001.txt
expect 1 'do not fit the graph: they are those of resnet18' classify "$photo" --arch alexnet --weights resnet18.zeros
expect 1 'they are those of alexnet_original or caffenet' classify "$photo" --arch alexnet --weights caffe.zeros
expect 1 'they look like those of ResNet50.*export_torch.py' classify "$photo" --arch resnet18 --weights resnet50.zeros
expect 1 'holds weights without a graph: they are those of alexnet; --arch' classify "$photo" --model alexnet.zeros
for network in caffenet alexnet_original; do
  expect 0 '0.10 %  name 0' classify "$photo" --arch $network --weights caffe.zeros --labels labels1000.txt
done
expect 0 'and the graph' convert caffe.zeros caffe.safetensors --arch caffenet
expect 0 'both sides to 256, centre crop 227, blue first, levels / 1, mean .122' inspect caffe.safetensors
expect 0 '0.10 %' classify "$photo" --model caffe.safetensors
expect 1 'state_dict.pth: holds weights without a graph' classify "$photo" --model "$golden/files/state_dict.pth"
expect 1 'alexnet-conv1.*expected a model whose output is scores' classify "$photo" --model "$model"

# many photographs, in batches that do not come out even, broken ones among them: answers in order, each its own
mkdir many
for i in 0 1 2 3 4 5 6 7 8 9; do cp "$source/weights/digits/$i.png" "many/$i.png"; done
head -c 100 "$source/weights/digits/4.png" >many/4x.png
broken=jpg
[ "$reads_jpeg" -gt 0 ] || broken=png
printf '\xff\xd8\xff\xe0' >many/8x.$broken
: >many/9x.${broken^^}   # a download that never began: by its name a photograph
printf 'notes' >many/notes.txt
for batch in 1 3 5 16; do
  "$lamina" classify many --model "$source/weights/digits.safetensors" --top 1 --csv --batch "$batch" >many.csv 2>many.err
  check "exit code 1 of batches of $batch" test $? -eq 1
  check "answers in batches of $batch" test "$(cut -d, -f1,3 many.csv | tr '\n' ' ')" = \
    'photo,class many/0.png,0 many/1.png,1 many/2.png,2 many/3.png,3 many/4.png,4 many/5.png,5 many/6.png,6 many/7.png,7 many/8.png,8 many/9.png,9 '
  check "all broken ones reported" test "$(grep -cE '4x.png|8x.jpg|9x.JPG|8x.png|9x.PNG' many.err)" -eq 3
  check "the rate" grep -qE '^10 of 13 photographs classified, [0-9.]+ a second; the network took [0-9.]+ ms of each$' many.err
done

# the shipped digits say what they are
names=(zero one two three four five six seven eight nine)
for digit in "${!names[@]}"; do
  expect 0 "^ +[0-9.]+ %  ${names[digit]}\$" classify "$source/weights/digits/$digit.png" --model "$source/weights/digits.safetensors" --top 1
done

# convert: the same tensors, a model where it was one, half the size in f16
expect 0 'wrote.*and the graph' convert "$classifier" half.safetensors --dtype f16
expect 0 'classifier.weight +f16' inspect half.safetensors
expect 0 '%' classify "$photo" --model half.safetensors
expect 2 'expected a name that ends in .safetensors' convert "$classifier" half.pth
expect 0 'wrote plain.safetensors: 1 tensor$' convert "$source/tests/golden/files/c_b1.npy" plain.safetensors
expect 1 'holds weights without a graph' inspect plain.safetensors --plan
expect 2 'labels.txt: expected 5 labels' convert "$classifier" no.safetensors --labels labels.txt
expect 1 'do not fit' convert "$classifier" no.safetensors --arch vgg16
expect 2 'dtype' convert "$classifier" no.safetensors --dtype f8
check 'nothing was written' test ! -e no.safetensors

# inspect, bench, doctor
expect 0 'features.0 +conv2d' inspect "$model"
expect 0 'arena|activations' inspect "$model"
expect 0 '^fold +[0-9]+ +[0-9]+  ' inspect "$model" --passes
expect 0 '^fold  +functions' inspect plain.safetensors --passes
expect 0 'input .*756 kB' inspect "$model" --plan --photos
expect 0 '^   normalisation from u8 nhwc to f32 nchw$' inspect "$model" --plan --photos
expect 0 'eigen' bench conv2d --device cpu --size 32 --batch 1,2 --seconds 0.01 --relu
check 'JSON' python3 -c 'import json,sys; json.load(sys.stdin)' < <("$lamina" bench conv2d --device cpu --size 32 --batch 1 --seconds 0.01 --json -)
expect 0 'sum of the steps' bench model --model "$classifier" --batch 2 --seconds 0.01
expect 0 "whole run of batch 1:" bench model --arch resnet18 --seconds 0.01
expect 0 "^   normalisation from u8" bench model --model "$classifier" --photos --inputs pinned --seconds 0.01
expect 0 '2 plans at once: [0-9.]+ images/s' bench model --model "$classifier" --plans 2 --threads 1 --seconds 0.05
expect 2 'inputs' bench model --model "$classifier" --inputs tape
expect 2 '^lamina: --kernel, --size and the like: conv2d: kernel .* is larger than the padded input' bench conv2d --device cpu --size 4 --padding 0
for table in 'inspect --plan --batch 256' 'bench model --batch 2 --seconds 0.01 --model'; do
  # shellcheck disable=SC2086
  check "$table fits a terminal" test "$("$lamina" $table "$classifier" 2>/dev/null | wc -L)" -le 120
done
check 'bench conv2d fits a terminal' test "$("$lamina" bench conv2d --device cpu --size 32 --batch 1,2 --seconds 0.01 2>/dev/null | wc -L)" -le 120
expect 0 'Not run in fp32 at N = 1, 2 .*: lanes' bench conv2d --device cpu --size 32 --batch 1,2 --seconds 0.01
expect 0 'algorithm bf16_amx on cpu does not take' bench conv2d --device cpu --size 32 --batch 1 --seconds 0.01 --algorithm bf16_amx
expect 0 'input .*nchw' bench conv2d --device cpu --size 32 --batch 1 --seconds 0.01 --layout nchw --algorithm eigen
expect 0 'channels last' bench conv2d --device cpu --size 32 --batch 1 --seconds 0.01 --layout nhwc --algorithm auto
expect 0 'input .*32, 16\] nchw' bench conv2d --device cpu --size 32,16 --batch 1 --seconds 0.01 --algorithm eigen
expect 0 'input .*32, 16\] f32 nhwc' bench conv2d --device cpu --size 32 16 --input-format f32,nhwc --batch 1 --seconds 0.01 --algorithm eigen
expect 2 'size' bench conv2d --size 32,16,8
expect 2 'layout' bench conv2d --layout chwn
expect 0 'size N\[,N\.\.\.\]' bench conv2d --help
expect 0 'outputs NAME\[,NAME\.\.\.\]' run --help
expect 0 'input-shape NAME=SHAPE ' run --help-all
expect 0 'architecture MAJOR\.MINOR ' run --help-all
expect 0 'layout nchw\|nhwc|nhwc: in the precision' bench conv2d --help
expect 0 '--device auto uses' doctor

finish
