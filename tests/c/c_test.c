/* The C interface, from C11: what it says, computes, and refuses.
 *   c_test SOURCE_DIR     tests
 *   c_test --abi          sizes and places of all that programs are compiled with
 */

#include "c_test.h"

#define FIELD(type, field) printf("%s.%s %zu\n", #type, #field, offsetof(type, field))
#define SIZE(type) printf("sizeof %s %zu\n", #type, sizeof(type))

static int print_abi(void) {
  printf("LAMINA_C_VERSION %d\n", LAMINA_C_VERSION);
  SIZE(lamina_tensor);
  FIELD(lamina_tensor, data), FIELD(lamina_tensor, shape), FIELD(lamina_tensor, rank);
  FIELD(lamina_tensor, dtype), FIELD(lamina_tensor, device), FIELD(lamina_tensor, reserved);
  SIZE(lamina_port);
  FIELD(lamina_port, name), FIELD(lamina_port, shape), FIELD(lamina_port, rank);
  FIELD(lamina_port, dtype);
  SIZE(lamina_compile_options);
  FIELD(lamina_compile_options, size), FIELD(lamina_compile_options, batch), FIELD(lamina_compile_options, device);
  FIELD(lamina_compile_options, precision), FIELD(lamina_compile_options, input_format),
      FIELD(lamina_compile_options, output_format);
  FIELD(lamina_compile_options, input_shapes), FIELD(lamina_compile_options, input_shape_count),
      FIELD(lamina_compile_options, threads);
  FIELD(lamina_compile_options, batch_invariant), FIELD(lamina_compile_options, constants),
      FIELD(lamina_compile_options, constant_names);
  FIELD(lamina_compile_options, constant_count), FIELD(lamina_compile_options, outputs);
  FIELD(lamina_compile_options, output_count), FIELD(lamina_compile_options, capacity_names);
  FIELD(lamina_compile_options, capacities), FIELD(lamina_compile_options, capacity_count);
  SIZE(lamina_memory);
  FIELD(lamina_memory, activations), FIELD(lamina_memory, workspace), FIELD(lamina_memory, parameters);
  FIELD(lamina_memory, shared);
  SIZE(lamina_picture);
  FIELD(lamina_picture, data), FIELD(lamina_picture, chroma), FIELD(lamina_picture, stride);
  FIELD(lamina_picture, width), FIELD(lamina_picture, height), FIELD(lamina_picture, format);
  FIELD(lamina_picture, reserved);
  SIZE(lamina_scored);
  FIELD(lamina_scored, index);
  FIELD(lamina_scored, score);
  SIZE(lamina_detect_options);
  FIELD(lamina_detect_options, size), FIELD(lamina_detect_options, confidence), FIELD(lamina_detect_options, iou);
  FIELD(lamina_detect_options, classes), FIELD(lamina_detect_options, class_count);
  FIELD(lamina_detect_options, across_classes), FIELD(lamina_detect_options, most);
  FIELD(lamina_detect_options, no_masks), FIELD(lamina_detect_options, reserved);
  SIZE(lamina_keypoint);
  FIELD(lamina_keypoint, x), FIELD(lamina_keypoint, y), FIELD(lamina_keypoint, score);
  SIZE(lamina_detection);
  FIELD(lamina_detection, name), FIELD(lamina_detection, label), FIELD(lamina_detection, score);
  FIELD(lamina_detection, box), FIELD(lamina_detection, corners), FIELD(lamina_detection, points);
  FIELD(lamina_detection, point_count), FIELD(lamina_detection, mask), FIELD(lamina_detection, mask_count);
  SIZE(lamina_detections);
  FIELD(lamina_detections, found), FIELD(lamina_detections, count), FIELD(lamina_detections, width);
  FIELD(lamina_detections, height), FIELD(lamina_detections, candidates), FIELD(lamina_detections, left_out);
  FIELD(lamina_detections, network_ms);
  printf("statuses %d %d %d %d %d %d %d %d\n", LAMINA_OK, LAMINA_ERROR, LAMINA_OUT_OF_MEMORY, LAMINA_STOPPED,
         LAMINA_NO_SUCH_FILE, LAMINA_FILE_ACCESS, LAMINA_UNSUPPORTED, LAMINA_FAILED);
  printf("dtypes %d..%d formats %d..%d\n", LAMINA_BOOL, LAMINA_F64, LAMINA_RGB, LAMINA_NV12);
  return 0;
}

static void test_model(const lamina_model* model) {
  const lamina_port* ports = NULL;
  const char* const* labels = NULL;
  size_t count = 0;
  EXPECT(lamina_model_inputs(model, &ports, &count) == LAMINA_OK && count == 1);
  EXPECT(strcmp(ports[0].name, "input") == 0 && ports[0].rank == 4 && ports[0].dtype == LAMINA_F32);
  EXPECT(ports[0].shape[0] == LAMINA_BATCH && ports[0].shape[1] == 3 && ports[0].shape[3] == SIDE);
  EXPECT(lamina_model_outputs(model, &ports, &count) == LAMINA_OK && count == 1);
  EXPECT(ports[0].rank == 2 && ports[0].shape[0] == LAMINA_BATCH && ports[0].shape[1] == CLASSES);
  EXPECT(lamina_model_labels(model, &labels, &count) == LAMINA_OK && count == CLASSES);
  EXPECT(strcmp(labels[7], "seven") == 0);
}

/* A photograph as a file, as bytes and as pixels is the same input; the network reads a seven in it. */
static void test_photo(const lamina_model* model, const char* path) {
  static float input[PIXELS], again[PIXELS];
  int32_t side = 0;
  EXPECT(lamina_photo_side(model, &side) == LAMINA_OK && side == SIDE);
  EXPECT(lamina_photo_read(model, path, input, PIXELS) == LAMINA_OK);

  static char bytes[1 << 16];
  const size_t size = read_file(path, bytes, sizeof bytes);
  EXPECT(lamina_photo_decode(model, bytes, size, again, PIXELS) == LAMINA_OK);
  EXPECT(memcmp(input, again, sizeof input) == 0);
  EXPECT_FAILS(lamina_photo_decode(model, bytes, size / 2, again, PIXELS), "photo");
  EXPECT_FAILS(lamina_photo_read(model, path, again, PIXELS - 1), "3071");
  EXPECT_STATUS(LAMINA_NO_SUCH_FILE, lamina_photo_read(model, "missing.png", again, PIXELS), "missing.png");

  static uint8_t grey[2 * SIDE * SIDE]; /* every other byte is of nobody's */
  lamina_picture picture = {.data = grey, .stride = 2 * SIDE, .width = SIDE, .height = SIDE, .format = LAMINA_GRAY};
  EXPECT(lamina_photo_convert(model, &picture, again, PIXELS) == LAMINA_OK);
  EXPECT(again[0] == again[PIXELS / 3 - 1]);
  picture.format = 6;
  EXPECT_FAILS(lamina_photo_convert(model, &picture, again, PIXELS), "got 6");
  picture.format = LAMINA_GRAY, picture.reserved = 5;
  EXPECT_FAILS(lamina_photo_convert(model, &picture, again, PIXELS), "picture.reserved: expected 0, got 5");

  lamina_plan* plan = NULL;
  EXPECT(lamina_model_compile(model, NULL, &plan) == LAMINA_OK);
  const lamina_tensor given = images(input, 1);
  lamina_tensor logits;
  lamina_scored best[2];
  lamina_tensor odd = given;
  odd.reserved = 1;
  EXPECT_FAILS(lamina_plan_run(plan, &odd, 1, &logits, 1, NULL), "tensor.reserved of 0, got 1");
  EXPECT(lamina_plan_run(plan, &given, 1, &logits, 1, NULL) == LAMINA_OK);
  EXPECT(logits.rank == 2 && logits.shape[0] == 1 && logits.shape[1] == CLASSES && logits.device == LAMINA_HOST);
  EXPECT(lamina_top_classes(logits.data, CLASSES, best, 2) == LAMINA_OK);
  EXPECT(best[0].index == 7 && best[0].score > 0.99f && best[0].score <= 1.0f && best[1].score < best[0].score);
  EXPECT_FAILS(lamina_top_classes(logits.data, CLASSES, best, 11), "got 11");
  lamina_scored same[2];
  EXPECT(lamina_model_top_classes(model, logits.data, CLASSES, same, 2) == LAMINA_OK);
  EXPECT(memcmp(best, same, sizeof best) == 0);
  static const float twenty[20] = {0};
  EXPECT_FAILS(lamina_model_top_classes(model, twenty, 20, same, 2), "numbers: expected 10, one for each label");
  lamina_plan_free(plan);
}

/* Of a batch each image's result is its own: the same to the bit in memory of the caller's, and of fewer images. */
static void test_run(const lamina_model* model) {
  const lamina_compile_options options = {
      .size = sizeof options, .batch = 4, .device = "cpu", .precision = "fp32", .threads = 2};
  lamina_plan* plan = NULL;
  EXPECT(lamina_model_compile(model, &options, &plan) == LAMINA_OK);
  const lamina_port* ports = NULL;
  const char* text = NULL;
  size_t count = 0;
  EXPECT(lamina_plan_inputs(plan, &ports, &count) == LAMINA_OK && count == 1 && ports[0].shape[0] == 4);
  EXPECT(lamina_plan_outputs(plan, &ports, &count) == LAMINA_OK && count == 1 && ports[0].shape[1] == CLASSES);
  EXPECT(lamina_plan_summary(plan, &text) == LAMINA_OK && strstr(text, "features.0") != NULL);

  static float input[4 * PIXELS], output[4 * CLASSES];
  for (int i = 0; i < 4 * PIXELS; ++i) input[i] = (float)(i % 251) / 251.0f;
  for (int i = 0; i < 4 * CLASSES; ++i) output[i] = NAN;
  lamina_tensor given = images(input, 4), result;
  lamina_tensor mine = {.data = output, .shape = {4, CLASSES}, .rank = 2, .dtype = LAMINA_F32};
  EXPECT(lamina_plan_run_into(plan, &given, 1, &mine, 1, NULL) == LAMINA_OK);
  EXPECT(lamina_plan_run(plan, &given, 1, &result, 1, NULL) == LAMINA_OK && result.shape[0] == 4);
  EXPECT(memcmp(result.data, output, sizeof output) == 0 && !isnan(output[0]));
  mine.data = input + 4 * PIXELS - 1; /* which the run still reads */
  EXPECT_FAILS(lamina_plan_run_into(plan, &given, 1, &mine, 1, NULL), "memory of input");
  mine.data = output;
  given.shape[0] = 3;
  EXPECT(lamina_plan_run(plan, &given, 1, &result, 1, NULL) == LAMINA_OK && result.shape[0] == 3);
  EXPECT(memcmp(result.data, output, 3 * CLASSES * sizeof(float)) == 0);

  EXPECT_FAILS(lamina_plan_run(plan, &given, 2, &result, 1, NULL), "expected 1 inputs, got 2");
  EXPECT_FAILS(lamina_plan_run(plan, &given, 1, &result, 0, NULL), "expected 1 outputs, got 0");
  EXPECT_FAILS(lamina_plan_run(plan, NULL, 1, &result, 1, NULL), "input: expected a pointer, got NULL");
  given.shape[2] = 31;
  EXPECT_FAILS(lamina_plan_run(plan, &given, 1, &result, 1, NULL), "got f32 [3, 3, 31, 32]");
  given.shape[2] = -1;
  EXPECT_FAILS(lamina_plan_run(plan, &given, 1, &result, 1, NULL), "expected extents of 0 and more");
  given = images(NULL, 4);
  EXPECT_FAILS(lamina_plan_run(plan, &given, 1, &result, 1, NULL), "input: expected");
  given = images(input, 4);
  given.rank = 9;
  EXPECT_FAILS(lamina_plan_run(plan, &given, 1, &result, 1, NULL), "got 9");
  given = images(input, 4);
  given.dtype = 99;
  EXPECT_FAILS(lamina_plan_run(plan, &given, 1, &result, 1, NULL), "got 99");
  given = images(input, 4);
  given.device = LAMINA_CUDA(7);
  EXPECT_FAILS(lamina_plan_run(plan, &given, 1, &result, 1, NULL), "on cuda:7");
  lamina_plan_free(plan);
}

static void test_refusals(const lamina_model* model) {
  lamina_model* other = NULL;
  lamina_plan* plan = NULL;
  EXPECT_STATUS(LAMINA_NO_SUCH_FILE, lamina_model_load("missing.onnx", &other), "missing.onnx");
  EXPECT_STATUS(LAMINA_FILE_ACCESS, lamina_model_load("/", &other), "cannot read /");
  EXPECT_FAILS(lamina_model_load(NULL, &other), "path: expected a pointer, got NULL");
  EXPECT_FAILS(lamina_model_load("a.onnx", NULL), "model: expected a pointer, got NULL");
  EXPECT_FAILS(lamina_model_load_network("resnet19", 0, "a.pth", &other), "resnet19");
  EXPECT(other == NULL);

  lamina_compile_options options = {.size = sizeof options, .precision = "fp31"};
  EXPECT_FAILS(lamina_model_compile(model, &options, &plan), "fp31");
  options.precision = NULL;
  options.device = "gpu";
  EXPECT_FAILS(lamina_model_compile(model, &options, &plan), "gpu");
  options.device = "cpu";
  options.precision = "fp16";
  EXPECT_STATUS(LAMINA_UNSUPPORTED, lamina_model_compile(model, &options, &plan), "precision fp16 needs a CUDA device");
  options.precision = NULL;
  const lamina_port shape = {.name = "nobody", .shape = {1}, .rank = 1};
  options.input_shapes = &shape;
  options.input_shape_count = 1;
  EXPECT_FAILS(lamina_model_compile(model, &options, &plan), "nobody");
  options.size = 8;
  EXPECT_FAILS(lamina_model_compile(model, &options, &plan), "options.size: expected");
  struct {
    lamina_compile_options known;
    int64_t later;
  } later = {.known = {.size = sizeof later}, .later = 1};
  EXPECT_FAILS(lamina_model_compile(model, &later.known, &plan), "does not know");
  EXPECT(plan == NULL);
  later.later = 0; /* a later program that sets nothing of what came later */
  EXPECT(lamina_model_compile(model, &later.known, &plan) == LAMINA_OK);
  lamina_plan_free(plan);
  lamina_plan_free(NULL);
  lamina_model_free(NULL);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  if (strcmp(argv[1], "--abi") == 0) return print_abi();
  EXPECT(lamina_c_version() == LAMINA_C_VERSION && strchr(lamina_version(), '.') != NULL);
  EXPECT(lamina_last_error()[0] == '\0');

  char path[4096];
  lamina_model *model = NULL, *network = NULL;
  snprintf(path, sizeof path, "%s/weights/digits.safetensors", argv[1]);
  EXPECT(lamina_model_load(path, &model) == LAMINA_OK);
  EXPECT_FAILS(lamina_model_load_network("alexnet", 0, path, &network), "features.0");
  snprintf(path, sizeof path, "%s/weights/digits/7.png", argv[1]);
  test_model(model);
  test_photo(model, path);
  test_run(model);
  test_models(argv[1], model);
  test_detectors(argv[1], model);
  test_refusals(model);
  lamina_model_free(model);
  puts("all passed");
  return 0;
}
