#!/usr/bin/env bash
# Photographs as people have them, what features draws of them, and what a model says that was not made for them.
#   photos_test.sh LAMINA SOURCE_DIR
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"
digits=$source/weights/digits.safetensors
golden=$source/tests/golden

formats=$("$lamina" doctor | sed -n 's/^photographs: //p')
check 'doctor says what is read' grep -q '^PNG, ' <<<"$formats"
images=$source/docs/images
if [ "$reads_jpeg" -eq 0 ]; then
  images=$work/images
  mkdir images
  cp "$source"/docs/images/*.png images
  cp images/coffee.png images/rocket.png
fi

# a photograph that a camera stored lying, as JPEG, and as WebP and HEIC where they are read
python3 - "$source" <<'PY'
import struct, sys
jpeg = open(sys.argv[1] + "/docs/images/rocket.jpg", "rb").read()
exif = b"Exif\0\0MM\0*\0\0\0\x08\0\1\x01\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0"
open("lying.jpg", "wb").write(jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + jpeg[2:])
PY
if [ "$reads_jpeg" -gt 0 ]; then
  expect 0 'lying.jpg: 427x640 -> ' features lying.jpg
  expect 0 'lying.jpg: 640x427 -> ' features lying.jpg --as-stored --out stored
  answer() { "$lamina" classify "$1" --model "$golden/tiny-classifier.safetensors" --csv "${@:2}" | cut -d, -f2-; }
  check 'classify turns it, too' test "$(answer lying.jpg)" != "$(answer lying.jpg --as-stored)"
  check 'and sees it as stored with --as-stored' test "$(answer lying.jpg --as-stored)" = "$(answer "$source/docs/images/rocket.jpg")"
fi
expect 0 'transparent' features --help-all
case $formats in
  *WebP*) expect 0 'lossy.webp: 97x75 -> ' features "$golden/images/lossy.webp" --out webp.png ;;
  *) expect 1 'this is a WebP image; dwebp makes a PNG of it' features "$golden/images/lossy.webp" --out webp.png ;;
esac
case $formats in
  *HEIC*) expect 0 'turned.heic: 96x64 -> ' features "$golden/heic/turned.heic" --out heic.png ;;
  *) expect 1 'this is a HEIC image; heif-convert makes a JPEG' features "$golden/heic/turned.heic" --out heic.png ;;
esac

# a transparent picture is on white: black digits on nothing are black digits on paper
python3 - "$source/weights/digits/7.png" <<'PY'
import struct, sys, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
def picture(name, colour, rows):
    header = struct.pack(">IIBBBBB", 8, 8, 8, colour, 0, 0, 0)
    data = chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows)))
    open(name, "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + data + chunk(b"IEND", b""))
seven = ["00111110", "00000110", "00000110", "00001100", "00011000", "00011000", "00110000", "00000000"]
picture("ink.png", 4, [b"".join(b"\0\xff" if c == "1" else b"\0\0" for c in row) for row in seven])
picture("paper.png", 0, [b"".join(b"\0" if c == "1" else b"\xff" for c in row) for row in seven])
picture("black.png", 0, [bytes(8)] * 8)
PY
names() { "$lamina" classify "$1" --model "$digits" --csv "${@:2}" 2>/dev/null | cut -d, -f2-; }
check 'transparent ink is as ink on paper' test "$(names ink.png)" = "$(names paper.png)"
check 'its hidden colours are all black' test "$(names ink.png --as-stored)" = "$(names black.png)"

# what a file is that is no photograph, and no weights
printf '<!DOCTYPE html><title>404</title>' >page.jpg
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\n' >pointer.safetensors
printf '\x89HDF\r\n\x1a\n_______' >net.h5
expect 1 'page.jpg: not an image .*: this is an HTML page' features page.jpg
expect 1 'this is an HTML page' classify "$photo" --model page.jpg
expect 1 'this is a Git LFS pointer.*git lfs pull' classify "$photo" --model pointer.safetensors
expect 1 'this is an HDF5 file' classify "$photo" --arch alexnet --weights net.h5
expect 1 'this is a PNG image' classify "$photo" --model "$photo"
expect 1 'this is a PNG image' convert "$photo" out.safetensors --arch alexnet
python3 -c 'import zipfile; zipfile.ZipFile("letter.zip", "w").writestr("word/document.xml", "<w/>")'
expect 1 'letter.zip: .*zip' classify "$photo" --model letter.zip

# any layer, of any model; negative values, too
expect 0 'features.3 \[1, 32, 15, 15\]' features "$photo" --model "$digits" --layer features.3 --out layer.png
expect 0 'wrote layers/chelsea-features.3.png' features "$photo" --model "$digits" --layer features.3 --out layers
expect 0 'features.0 \[1, 96, 55, 55\]' features "$photo" --layer features.0 --out layers
expect 2 'layer: .*has no layer "features.33"; nearest: "features.3' features "$photo" --model "$digits" --layer features.33
expect 2 'has no layer "input"' features "$photo" --model "$digits" --layer input
expect 1 'expected a layer of feature maps .*classifier.6 gives \[1, 10\]' features "$photo" --model "$digits" --layer classifier.6

# a directory: one picture each and a sheet of all; nothing is overwritten by another picture
expect 0 'wrote sheet.png: 4 photographs' features "$images" --out pictures --sheet sheet.png
check 'a picture for each' test "$(ls pictures | wc -l)" -eq 4
check 'the sheet is a PNG' grep -q PNG <(head -c 8 sheet.png)
expect 0 'holds this very picture already' features "$images" --out pictures
check 'the same again adds nothing' test "$(ls pictures | wc -l)" -eq 4
cp pictures/chelsea-features.png kept.png
expect 0 'wrote pictures/chelsea-features-2.png, as pictures/chelsea-features.png holds another picture' \
  features "$photo" --model "$digits" --out pictures
check 'the first one is intact' cmp -s kept.png pictures/chelsea-features.png
expect 0 'chelsea-features-2.png holds this very picture already' features "$photo" --model "$digits" --out pictures
expect 2 'sheet: expected a name that ends in .png' features "$photo" --sheet sheet.jpg
"$lamina" features "$images" --out again >order.txt
check 'answers are in the order of the names' test "$(grep -o '^[^ ]*images/[a-z]*' order.txt | grep -o '[a-z]*$' | tr '\n' ' ')" = 'astronaut chelsea coffee rocket '

# --open shows what was drawn, where there is a desktop
unset DISPLAY WAYLAND_DISPLAY
if [ "$(uname)" = Linux ]; then
  expect 1 'as --open asks: there is no desktop here.*open one.png yourself' features "$photo" --out one.png --open
  check 'the picture is there all the same' test -s one.png
  mkdir bin && printf '#!/bin/sh\necho "shown: $1"\n' >bin/xdg-open && chmod +x bin/xdg-open
  export DISPLAY=:9
  PATH=$work/bin:$PATH expect 0 "shown: $work/one.png" features "$photo" --out one.png --open
  PATH=$work/bin:$PATH expect 0 "shown: $work/sheet.png" features "$images" --out shown --sheet sheet.png --open
  PATH=$work/bin:$PATH expect 0 "shown: $work/shown" features "$images" --out shown --open
  check 'no viewer' grep -q 'as --open asks: there is no xdg-open on this machine' \
    <<<"$(PATH=$work/none "$lamina" features "$photo" --out one.png --open 2>&1)"
fi

# the digits' model says that it reads digits, where it is shown something else
expect 0 'digits.safetensors reads one handwritten digit.*not sure of this photograph' classify "$source/docs/images/astronaut.png" --model "$digits"
expect 0 'not sure of [2-4] of these photographs.*their best classes have less than 90 %' classify "$images" --model "$digits"
check 'not where it is sure' test -z "$("$lamina" classify "$source/weights/digits/7.png" --device cpu --model "$digits" 2>&1 >/dev/null)"
expect 0 'for: reads one handwritten digit' inspect "$digits"
expect 0 'wrote' convert "$digits" half.safetensors --dtype f16
expect 0 'half.safetensors reads one handwritten digit' classify "$source/docs/images/astronaut.png" --model half.safetensors

# numbered pictures, as frames of a video: in the order that people count
mkdir frames
for n in 10 9 1 02 100; do cp "$source/weights/digits/7.png" "frames/f$n.png"; done
cp "$source/weights/digits/7.png" frames/a.png
check 'f9 is before f10' test "$("$lamina" classify frames --model "$source/weights/digits.safetensors" --top 1 --csv 2>/dev/null | cut -d, -f1 | tr '\n' ' ')" = \
  'photo frames/a.png frames/f1.png frames/f02.png frames/f9.png frames/f10.png frames/f100.png '

# pictures on stdin, one after the other
digits="--model $source/weights/digits.safetensors --top 1 --csv"
printf 'P6\n2 1\n255\nabcdef' >two.ppm
cat "$source/weights/digits/7.png" two.ppm "$source/weights/digits/3.png" >stream
if [ "$reads_jpeg" -gt 0 ]; then cat "$source/docs/images/rocket.jpg" "$source/docs/images/rocket.jpg" >>stream; fi
"$lamina" classify - $digits <stream >answers.csv 2>/dev/null
check 'each is a picture' test "$(tail -n +2 answers.csv | cut -d, -f1 | xargs -n 1 basename | tr '\n' ' ')" = \
  "frame-000001.png frame-000002.ppm frame-000003.png $([ "$reads_jpeg" -gt 0 ] && echo 'frame-000004.jpg frame-000005.jpg ')"
check 'the first is a seven' grep -q '^frame-000001.png,1,7,seven' answers.csv
expect 0 '^stdin.png$' classify - --model digits <"$source/weights/digits/7.png"
expect 1 'lamina: stdin.ppm: ' classify - --model digits < <(printf 'P6\n1 1\n0\nabc')
check 'they are gone' test -z "$(find "${TMPDIR:-/tmp}" -maxdepth 1 -name 'lamina-frames-*' -newer two.ppm -print -quit)"
for bytes in 7 8 60 100; do
  expect 1 'stdin: expected PNG, JPEG or PPM .*: this is a text' classify - $digits < <(echo hello)
  expect 1 'stdin: image 1 is not complete' classify - $digits < <(head -c "$bytes" "$source/weights/digits/7.png")
done
expect 1 'stdin: expected PNG, JPEG or PPM images' classify - $digits < <(echo no pictures)
expect 1 'no photographs came on stdin' classify - $digits </dev/null
expect 1 'stdin: a PPM image without its size' classify - $digits < <(printf 'P6 a b c d e')
finish
