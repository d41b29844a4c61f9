#!/usr/bin/env bash
# What a command must survive: a full disk, a closed pipe, bad entries among good ones, too little memory, hostile files.
#   faults_test.sh LAMINA SOURCE_DIR
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"
classifier=$source/tests/golden/tiny-classifier.safetensors
digits=$source/weights/digits.safetensors

exec 5>&1  # where to say what failed while standard output leads nowhere
# fails_to_print DESCRIPTION COMMAND...: exit code 1 and one line on stderr
fails_to_print() {
  local what=$1 status
  shift
  timeout 60 "$@" 2>stderr.txt
  status=$?
  check "$what: exit code 1, got $status" test "$status" -eq 1 >&5
  check "$what: one line on stderr, got: $(cat stderr.txt)" \
    test "$(grep -c 'lamina: cannot write to stdout: ' stderr.txt)" -eq 1 >&5
}
if [ -e /dev/full ]; then
  for arguments in "classify $photo --model $classifier --json" "classify $photo --model $classifier" "inspect $model" \
                   "doctor" "--help" "features --help" "--version" "convert $classifier out.safetensors" \
                   "run --model $model --input $photo --output out.safetensors"; do
    # shellcheck disable=SC2086
    fails_to_print "$arguments, a full disk" "$lamina" $arguments >/dev/full
  done
fi
mkfifo pipe
exec 3<>pipe 4>pipe 3<&-   # nobody will read what is written to 4
"$lamina" inspect "$model" --device cpu >&4 2>stderr.txt
check 'who reads has had enough, which is no error' test $? -eq 0 -a ! -s stderr.txt
exec 4>&-
fails_to_print 'a closed standard output' "$lamina" inspect "$model" >&-
check 'standard output closed: nothing is printed into the file written' python3 - "$lamina" "$classifier" <<'EOF'
import os, subprocess, sys
subprocess.run([sys.argv[1], "convert", sys.argv[2], "closed.safetensors"], preexec_fn=lambda: os.close(1), stderr=subprocess.DEVNULL)
sys.exit(b"wrote" in open("closed.safetensors", "rb").read())
EOF

# words and numbers that people try
expect 0 'features' help
expect 0 'lamina classify' help classify
expect 0 'Subcommands' help version
expect 0 '^lamina [0-9]+\.' version
expect 2 'no command "clasify"; did you mean classify' help clasify
expect 2 'top: expected a whole number from 1 to [0-9]+, got "0" \(' classify "$photo" --model "$classifier" --top 0
expect 2 'batch: expected a whole number from 1 to 4096, got "x"' classify "$photo" --model "$classifier" --batch x
expect 2 'memory: expected a size such as 500M' classify "$photo" --model "$classifier" --memory much

# one bad entry does not stop the others
mkdir -p folder/deeper
cp "$source/weights/digits/1.png" folder/1.png
cp "$source/weights/digits/2.png" folder/deeper/2.png
ln -s loop.png folder/loop.png
ln -s circle folder/circle
ln -s nowhere folder/dangling.jpg
ln -s .. folder/up
printf '\0\0\0\x18ftypqt  ' >folder/IMG_1.MOV
printf '\xff\x0a' >folder/moving.jxl
touch folder/.hidden
for command in "classify --model $digits --csv" "features --model $digits --out pictures"; do
  # shellcheck disable=SC2086
  "$lamina" ${command%% *} folder missing.png "$source/weights/digits/3.png" ${command#* } >out.txt 2>err.txt
  check "$command of bad and good entries: exit code 1" test $? -eq 1
  for good in folder/1.png digits/3.png; do
    check "$command: $good was done: $(cat out.txt err.txt)" grep -q "$good" out.txt
  done
  for bad in 'folder/loop.png: ' 'folder/circle: .*symbolic links' 'folder/dangling.jpg: a link that leads nowhere' 'missing.png: there is no such file'; do
    check "$command: $bad is named: $(cat err.txt)" grep -qE "^lamina: $bad" err.txt
  done
  check "$command: what is left out is named: $(cat err.txt)" \
    grep -q '^lamina: folder: left out 2 files that Lamina does not read: IMG_1.MOV, moving.jxl; 2 folders' err.txt
done
rm folder/loop.png folder/circle folder/dangling.jpg folder/up
check 'not deeper unasked' test "$("$lamina" classify folder --top 1 --model "$digits" --csv 2>/dev/null | wc -l)" -eq 2
check 'deeper with --recursive' test "$("$lamina" classify folder --top 1 --recursive --model "$digits" --csv 2>/dev/null | wc -l)" -eq 3
expect 0 '^2 photographs classified' classify folder --recursive --model "$digits"

# a picture too large for the memory there is: an error, and the others are done
python3 - <<'EOF'
with open("folder/large.ppm", "wb") as file:
    file.write(b"P6 6000 6000 255\n")
    file.truncate(file.tell() + 3 * 6000 * 6000)
EOF
expect 1 'large.ppm: decoding it takes 108 MB of memory, more than the 50.0 MB that it may take' classify folder --model "$digits" --memory 50M
expect 1 '^1 of 2 photographs classified' classify folder --model "$digits" --memory 50M
expect 0 '^2 photographs classified' classify folder --model "$digits" --memory 1G
cp folder/large.ppm folder/another.ppm  # one after the other, then
expect 0 '^3 photographs classified' classify folder --model "$digits" --memory 110M
rm folder/another.ppm
# The same where the system refuses: the file and the pixels do not fit the address space together. One arena: each thread's
# own would reserve 64 MB of it, and who came last would have none left to begin with.
(ulimit -v 220000; MALLOC_ARENA_MAX=1 exec "$lamina" classify folder --model "$digits" --csv --threads 1) >out.txt 2>err.txt
check "short of memory: exit code 1" test $? -eq 1
check "short of memory, the others are done: $(cat err.txt)" grep -q 'folder/1.png' out.txt
check "short of memory, the picture is named: $(cat err.txt)" grep -q 'large.ppm: out of memory' err.txt

# photographs stand upright
python3 - "$source/tests/golden/images/colour.jpg" <<'EOF'
import struct, sys
jpeg = open(sys.argv[1], "rb").read()
tiff = b"MM\0*\0\0\0\x08" + struct.pack(">HHHIHHI", 1, 0x112, 3, 1, 6, 0, 0)
body = b"Exif\0\0" + tiff
open("turned.jpg", "wb").write(jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body + jpeg[2:])
EOF
size() { "$lamina" features "$@" --model "$model" --out turned.png | grep -oE '^[^ ]+: [0-9]+x[0-9]+' | sed 's/.*: //'; }
if [ "$reads_jpeg" -gt 0 ]; then
  stored=$(size turned.jpg --as-stored)
  check "as stored ($stored), then upright" test "$(size turned.jpg)" = "${stored#*x}x${stored%x*}"
else
  cp "$photo" turned.jpg  # what a picture is its bytes say
fi

# titles in any letters, or none
for title in 'Größe – 写真.jpg' 'Ελληνικά مرحبا.jpg' $'not UTF-8 \xff\xc3.jpg'; do
  cp turned.jpg "$title"
  check "a picture of $title" "$lamina" features "$title" --model "$model" --out titled.png
done

# hostile files: nothing drives the terminal
python3 - <<'EOF'
import json, struct
def write(path, metadata, tensors=()):
    header = {"__metadata__": metadata}
    for i, name in enumerate(tensors):
        header[name] = {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]}
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + bytes(4 * len(tensors)))
def graph(nodes, **more):
    return json.dumps({"version": 1, "inputs": [{"name": "x", "dtype": "f32", "shape": ["N", 4]}], "nodes": nodes, **more})
evil = "\x1b[2Jevil\x07"
write("escape.safetensors", {"lamina.graph": graph([{"name": evil, "op": "relu", "inputs": ["x"]}], outputs=[evil]),
                             "lamina.labels": "\x1b[1;1Hcat\ndog\n\x9b31mx\ny", "note\x1b[5m": "\x1b]52;c;x\x07"}, ["\x1b[31mred\ttab\nnewline"])
write("denormal.safetensors", {"lamina.graph": graph([{"name": "r", "op": "relu", "inputs": ["x"]}], outputs=["r"]),
                               "lamina.preprocess": '{"mean":[1e-40,0.456,0.406],"std":[0.229,0.224,0.225]}'})
open("four.txt", "w").write("a\nb\nc\nd\n")
EOF
for arguments in 'inspect escape.safetensors' 'inspect escape.safetensors --plan' 'convert escape.safetensors /no/such/x' \
                 'run --model escape.safetensors --input escape.safetensors --output x.safetensors'; do
  # shellcheck disable=SC2086
  "$lamina" $arguments >out.txt 2>&1
  check "$arguments escapes control characters" test "$(tr -d '\n' <out.txt | LC_ALL=C grep -cP '[\x00-\x1f\x7f]|\xc2[\x80-\x9f]')" -eq 0
done
expect 0 'wrote' convert denormal.safetensors labelled.safetensors --labels four.txt
expect 0 '9.99995e-41' inspect labelled.safetensors

# what a file is, and what is written
printf '<!DOCTYPE html><html>404' >page.pth
expect 1 'page.pth: not a safetensors, .onnx, .npy or .pth file: this is an HTML page' inspect page.pth
expect 1 'this is a PNG image' inspect "$photo"
expect 1 'moving.jxl: not an image.*this is a JPEG XL image; djxl makes a PNG of it' classify folder/moving.jxl --model "$digits"
for name in y.onnx y.h5 y.npz; do
  expect 2 "the argument out: expected a name that ends in .safetensors, which is what is written, got $name" convert "$classifier" $name
  expect 2 "^lamina: --out: expected a name" convert "$classifier" --out $name
  check "no $name" test ! -e $name
done

# weights under names that wrappers made
python3 - "$digits" <<'EOF'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
length = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + length])
header.pop("__metadata__")
for prefix in "module._orig_mod.", "model.", "backbone.":
    text = json.dumps({prefix + name: entry for name, entry in header.items()}).encode()
    open(prefix + "safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data[8 + length:])
EOF
for prefix in module._orig_mod. model.; do
  expect 0 '%  three' classify "$source/weights/digits/3.png" --model "$digits" --weights ${prefix}safetensors
done
expect 1 'all their names begin with "backbone."' classify "$source/weights/digits/3.png" --model "$digits" --weights backbone.safetensors

# demo.sh answers before it builds: nothing that builds is on this path
mkdir none
for tool in cmake sudo apt-get ninja; do
  printf '#!/bin/sh\necho "built something"; exit 99\n' >none/$tool
  chmod +x none/$tool
done
for arguments in --help no-such-photo.jpg; do
  PATH="$PWD/none:$PATH" timeout 20 "$source/scripts/demo.sh" "$arguments" >demo.txt 2>&1
  status=$?
  check "demo.sh $arguments answers at once (exit code $status): $(head -n 3 demo.txt)" \
    test "$status" -eq "$([ "$arguments" = --help ] && echo 0 || echo 1)"
  check "demo.sh $arguments builds nothing" test "$(grep -c 'built something' demo.txt)" -eq 0
done
check 'demo.sh names the photograph' grep -q 'no-such-photo.jpg' demo.txt

finish
