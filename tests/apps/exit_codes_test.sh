#!/usr/bin/env bash
# exit_codes_test.sh LAMINA SOURCE_DIR: 2 for what is wrong on the command line, by itself or of this model; 1 for work that
# failed; 0 for work that is done. docs/troubleshooting.md says so to users.
. "$(dirname "${BASH_SOURCE[0]}")/harness.sh"
digits=$source/weights/digits.safetensors
digit=$source/weights/digits/7.png
echo text >garbage
mkdir folder.safetensors

# A row: the code, words of the message, and the arguments; one word each.
while read -r code words arguments; do
  [ -z "$code" ] || [ "$code" = '#' ] && continue
  arguments=${arguments//PHOTO/$digit} arguments=${arguments//MODEL/$digits}
  # shellcheck disable=SC2086
  expect "$code" "${words//_/ }" $arguments </dev/null
done <<'ROWS'
# what the parser finds
2 there_is_no_option --json
2 did_you_mean_classify clasify PHOTO
2 expected_photographs classify
2 did_you_mean_--top classify PHOTO --topp 3
2 whole_number classify PHOTO --model digits --top 0
2 expected_one_of classify PHOTO --model digits --preprocess imagnet
2 expected_auto classify PHOTO --model digits --device gpu
2 named_twice classify PHOTO --model digits --device cpu,cpu
2 there_is_no_folder run --model digits --input PHOTO --out nowhere/x.safetensors
2 did_you_mean_fp16\? classify PHOTO --model digits --precision FP16
2 did_you_mean_fp16\? verify --model digits --against half
2 did_you_mean_fp32\? classify PHOTO --model digits --precision f32
2 did_you_mean_f16\? classify PHOTO --model digits --linear-weights fp16
2 did_you_mean_f16\? convert digits x.safetensors --dtype FLOAT16
2 did_you_mean_cuda\? classify PHOTO --model digits --device gpu
2 did_you_mean_cuda:1\? classify PHOTO --model digits --device GPU:1
2 another_than_--against,_which_is_fp32_too verify --model digits --against fp32 --precision fp32 --device cpu
2 cannot_write run --model digits --input PHOTO --out /proc/x.safetensors
2 cannot_write quantize digits PHOTO --out /proc/x.onnx
2 cannot_write convert digits /proc/x.safetensors
2 cannot_write classify PHOTO --model digits --json /proc/x.json
2 cannot_write detect PHOTO --model digits --coco /proc/x.json
2 cannot_write features PHOTO --out /proc/x.png
2 Is_a_directory run --model digits --input PHOTO --out folder.safetensors
2 ends_in_.safetensors run --model digits --input PHOTO --out x.npz
2 ends_in_.safetensors convert digits x.npy
2 .safetensors_or_.onnx quantize digits PHOTO --out x.npy
2 ends_in_.png features PHOTO --sheet x.jpg
2 is_the_file_of convert garbage garbage
2 did_you_mean_--model classify PHOTO PHOTO MODEL
# what the model, the photographs or the device tell
2 expected_--model classify PHOTO
2 expected_32 classify PHOTO --model digits --size 3
2 has_no_layer features PHOTO --model digits --layer no
2 expected_a_filter features PHOTO --explain 3,3 --filter 96 --model digits --layer features.1
2 has_no_node run --model digits --input PHOTO --outputs no --json
2 has_no_node segment PHOTO --model digits --output-name no
2 fp16_needs_a_CUDA classify PHOTO --model digits --device cpu --precision fp16
2 fp16_needs_a_CUDA bench conv2d --device cpu --precision fp16
2 --against:_the_CPU_computes_in_fp32_and_bf16 verify --model digits --device cpu --against fp16
2 is_larger_than_the_padded bench conv2d --device cpu --size 4 --padding 0
2 divide_3_input bench conv2d --device cpu --groups 5
2 name_of_a_.png features PHOTO --out x.webp
2 a_folder_for_2_photographs features PHOTO PHOTO --out x.png
2 the_model_has_no_input inspect digits --constant no=3
2 for_its_key_"no" inspect digits --key no
2 expected_extents inspect digits --input-shape input=ax3
2 photographs_are_numbers_up_to_1, classify PHOTO --model digits --scale 1/255 --mean 123
2 photographs_are_numbers_up_to_1, classify PHOTO --model digits --scale 1/255 --std 58
2 photographs_are_numbers_up_to_255,_got_0.229 classify PHOTO --model digits --scale 1 --mean 0.485 --std 0.229
2 expected_a_file_beside_--json detect PHOTO --model digits --coco - --json - --no-pictures
2 expected_32 serve --model digits --size digits=3 --port 0
# work that fails
1 no_such_file classify nothing.png --model digits
1 not_an_image classify garbage --model digits
1 nothing.safetensors classify PHOTO --model nothing.safetensors
1 not_a_safetensors inspect garbage
1 cannot_make_the_folder features PHOTO --out garbage/pictures
1 cannot_listen serve --model digits --host 999.1.1.1 --port 0
1 FAIL verify --model digits --against fp32 --device cpu --atol 0 --rtol 0
1 diverge_is_classifier.6_.fp32 verify --model digits --against bf16 --device cpu --atol 0 --rtol 0
# and what is well
0 lamina --version
0 classify classify --help
0 classes|% classify PHOTO --model digits --device cpu
0 classes|% classify PHOTO --model digits --device cpu --scale 1/127.5 --mean 1
0 next: doctor
ROWS

# A variable that is not set, between quotes.
expect 2 'a file or an option: got "", which names nothing' classify ""
expect 2 '^lamina: --model: got "", which names nothing' classify "$digit" --model ""

# Examples in --help run as they are written, beside files of these names. None needs a clone.
cp "$source/docs/images/chelsea.png" photo.jpg && cp -r "$source/weights/digits" photos
cp "$source/tests/golden/network.safetensors" model.safetensors && cp "$source/tests/golden/network-golden.safetensors" golden.safetensors
for command in features classify run verify inspect quantize doctor; do
  "$lamina" --help | grep -q "^  $command " && while read -r _ words; do
    # shellcheck disable=SC2086
    expect 0 '' $words
  done < <("$lamina" $command --help | grep -E '^  lamina ' | grep -vE '\.(pth|ckpt|onnx)')
done

expect 0 'photographs, folders of them' -h classify

# Commands that a build can leave out: `doctor` says which it has, and their names say what else has them.
for room in detect quantize serve; do
  if "$lamina" --help | grep -q "^  $room "; then
    expect 0 "this one has:.* $room(,|;|\$)" doctor
  else
    expect 0 "not in it:.* $room(,|\$)" doctor
    expect 2 "this build has no $room: .*-DLAMINA_" $room
  fi
done
finish
