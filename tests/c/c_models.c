/* Models of files and of memory, with open shapes, without preprocessing; plans with outputs and limits. */

#include "c_test.h"

/* (python/tests/onnx_writer.py wrote the file: Relu, Reshape.) What a file leaves open, the number of dimensions too,
   and values that shapes depend on are for the program to say: y has the shape that `shape` says of x's numbers. */
static void test_open(const char* path) {
  lamina_model* model = NULL;
  lamina_plan* plan = NULL;
  const lamina_port* ports = NULL;
  size_t count = 0;
  EXPECT(lamina_model_load(path, &model) == LAMINA_OK);
  EXPECT(lamina_model_inputs(model, &ports, &count) == LAMINA_OK && count == 2 && ports[0].rank == -1);
  EXPECT_FAILS(lamina_model_compile(model, NULL, &plan), "is open; lamina_compile_options.input_shapes gives it");

  const lamina_port x = {.name = "x", .shape = {2, 3}, .rank = 2};
  lamina_compile_options options = {
      .size = sizeof options, .device = "cpu", .input_shapes = &x, .input_shape_count = 1};
  EXPECT_FAILS(lamina_model_compile(model, &options, &plan), "give its value as lamina_compile_options.constants");
  int64_t extents[] = {3, 2};
  const lamina_tensor shape = {.data = extents, .shape = {2}, .rank = 1, .dtype = LAMINA_I64};
  const char* name = "shape";
  options.constant_count = 1;
  options.constant_names = &name;
  EXPECT_FAILS(lamina_model_compile(model, &options, &plan), "options.constants: expected a pointer, got NULL");
  options.constants = &shape;
  EXPECT(lamina_model_compile(model, &options, &plan) == LAMINA_OK);
  extents[0] = 0; /* it has been copied */
  float numbers[] = {-1, 1, 2, 3, 4, 5};
  const lamina_tensor given = {.data = numbers, .shape = {2, 3}, .rank = 2, .dtype = LAMINA_F32};
  lamina_tensor y;
  EXPECT(lamina_plan_run(plan, &given, 1, &y, 1, NULL) == LAMINA_OK);
  EXPECT(y.rank == 2 && y.shape[0] == 3 && y.shape[1] == 2 && ((const float*)y.data)[0] == 0);
  lamina_plan_free(plan);
  /* or each run says it, up to so much, where what is read has a count as well */
  const int64_t most = 6;
  options.constant_count = 0, options.capacity_count = 1;
  EXPECT_FAILS(lamina_model_compile(model, &options, &plan), "options.capacities: expected a pointer, got NULL");
  options.capacities = &most, options.capacity_names = &name;
  EXPECT_FAILS(lamina_model_compile(model, &options, &plan), "y: Reshape: cannot read [2, 3] as [6, 6]");
  name = NULL;
  EXPECT_FAILS(lamina_model_compile(model, &options, &plan), "options.capacity_names: expected a pointer, got NULL");
  lamina_model_free(model);
}

/* What no file says is for the program to say: nothing is assumed. */
static void test_preprocess(const char* onnx, const char* photo) {
  static float input[3 * 16 * 16];
  lamina_model* model = NULL;
  int32_t side = 0;
  EXPECT(lamina_model_load(onnx, &model) == LAMINA_OK);
  EXPECT_FAILS(lamina_photo_side(model, &side), "lamina_model_set_preprocess does");
  EXPECT_FAILS(lamina_photo_read(model, photo, input, 3 * 16 * 16), "lamina_model_set_preprocess does");
  EXPECT_FAILS(lamina_model_set_preprocess(model, "{\"resise\": 16}"),
               "preprocess: unknown key \"resise\"; nearest: \"resize\"");
  EXPECT_FAILS(lamina_model_set_preprocess(model, "{\"sides"), "not valid JSON: parse error at line 1");
  EXPECT_FAILS(lamina_model_set_preprocess(model, NULL), "preprocess: expected a pointer, got NULL");
  EXPECT_FAILS(lamina_model_set_preprocess(model, "imagnet"),
               "expected one of imagenet, symmetric, caffe, yolo, yolox");
  EXPECT(lamina_model_set_preprocess(model, "yolox") == LAMINA_OK);
  EXPECT(lamina_photo_side(model, &side) == LAMINA_OK && side == 640);
  EXPECT(lamina_model_set_preprocess(model, "caffe") == LAMINA_OK);
  EXPECT(lamina_photo_side(model, &side) == LAMINA_OK && side == 227);
  EXPECT(lamina_model_set_preprocess(model, "imagenet") == LAMINA_OK);
  EXPECT(lamina_photo_side(model, &side) == LAMINA_OK && side == 224);
  EXPECT(lamina_model_set_preprocess(model, "{\"resize\": 16, \"crop\": 16}") == LAMINA_OK);
  EXPECT(lamina_photo_side(model, &side) == LAMINA_OK && side == 16);
  EXPECT(lamina_photo_read(model, photo, input, 3 * 16 * 16) == LAMINA_OK);
  EXPECT(fabsf(input[0] + 0.485f / 0.229f) < 1e-6f); /* black */
  lamina_model_free(model);
}

/* Of the bytes of a file a model becomes what it becomes of the file; they are nobody's afterwards. */
static void test_memory(const char* lamina, const char* onnx) {
  enum { ROOM = 1 << 21 };
  char* const bytes = malloc(ROOM);
  EXPECT(bytes != NULL);
  lamina_model* model = NULL;
  const char* task = NULL;
  for (int i = 0; i < 2; ++i) {
    const size_t size = read_file(i == 0 ? lamina : onnx, bytes, ROOM);
    EXPECT(lamina_model_load_memory(bytes, size, &model) == LAMINA_OK);
    memset(bytes, 0, size);
    EXPECT(lamina_model_metadata(model, "task", &task) == LAMINA_OK);
    EXPECT(i == 0 ? task == NULL : strcmp(task, "detect") == 0);
    lamina_plan* plan = NULL;
    lamina_memory memory;
    const lamina_compile_options options = {.size = sizeof options, .batch = i == 0 ? 3 : 1, .device = "cpu"};
    EXPECT(lamina_model_plan_memory(model, &options, &memory) == LAMINA_OK);
    EXPECT(memory.activations > 0 && memory.shared <= memory.parameters);
    EXPECT(lamina_model_compile(model, &options, &plan) == LAMINA_OK);
    lamina_plan_free(plan);
    lamina_model_free(model);
  }
  model = NULL;
  const size_t size = read_file(lamina, bytes, ROOM);
  EXPECT_FAILS(lamina_model_load_memory(bytes, size / 2, &model), "model in memory: ");
  EXPECT_FAILS(lamina_model_load_memory(bytes, 0, &model), "expected the bytes of a file, got none");
  EXPECT_FAILS(lamina_model_load_memory(NULL, 1, &model), "bytes: expected a pointer, got NULL");
  EXPECT(model == NULL);
  free(bytes);
}

/* Any nodes are the outputs, in the order in which they are named. */
static void test_outputs(const lamina_model* model) {
  const char* const names[] = {"features.2", "features.0"};
  lamina_compile_options options = {.size = sizeof options, .device = "cpu", .outputs = names, .output_count = 2};
  lamina_plan* plan = NULL;
  const lamina_port* ports = NULL;
  size_t count = 0;
  EXPECT(lamina_model_compile(model, &options, &plan) == LAMINA_OK);
  EXPECT(lamina_plan_outputs(plan, &ports, &count) == LAMINA_OK && count == 2);
  EXPECT(strcmp(ports[0].name, names[0]) == 0 && strcmp(ports[1].name, names[1]) == 0 && ports[1].rank == 4);
  lamina_plan_free(plan);
  const char* const wrong[] = {"feature.2"};
  options.outputs = wrong, options.output_count = 1;
  EXPECT_FAILS(lamina_model_compile(model, &options, &plan), "feature.2");
  options.outputs = NULL;
  EXPECT_FAILS(lamina_model_compile(model, &options, &plan), "options.outputs: expected a pointer, got NULL");
}

/* A run that is stopped says so, and so does one that takes too long; the plan runs again without them. */
static void test_limits(const lamina_model* model) {
  static float input[PIXELS];
  const lamina_tensor given = images(input, 1);
  lamina_tensor result;
  lamina_plan* plan = NULL;
  EXPECT(lamina_model_compile(model, NULL, &plan) == LAMINA_OK);
  EXPECT(lamina_plan_run(plan, &given, 1, &result, 1, NULL) == LAMINA_OK);
  EXPECT(lamina_plan_stop(plan) == LAMINA_OK);
  EXPECT(lamina_plan_run_into(plan, &given, 1, &result, 1, NULL) == LAMINA_STOPPED);
  EXPECT(lamina_plan_run(plan, &given, 1, &result, 1, NULL) == LAMINA_STOPPED);
  EXPECT(strcmp(lamina_last_error(), "run: stopped, as was asked for") == 0);
  EXPECT(lamina_plan_set_limit(plan, HUGE_VAL) == LAMINA_OK);
  EXPECT(lamina_plan_run(plan, &given, 1, &result, 1, NULL) == LAMINA_OK);
  EXPECT(lamina_plan_set_limit(plan, 1e-9) == LAMINA_OK);
  EXPECT(lamina_plan_run(plan, &given, 1, &result, 1, NULL) == LAMINA_STOPPED);
  EXPECT(strstr(lamina_last_error(), "it took longer than 1e-09 s") != NULL);
  EXPECT_FAILS(lamina_plan_set_limit(plan, -1), "seconds: expected 0 or more, got -1");
  EXPECT_FAILS(lamina_plan_set_limit(plan, NAN), "seconds: expected 0 or more");
  EXPECT_FAILS(lamina_plan_stop(NULL), "plan: expected a pointer");
  EXPECT(lamina_plan_set_limit(plan, 0) == LAMINA_OK);
  EXPECT(lamina_plan_run(plan, &given, 1, &result, 1, NULL) == LAMINA_OK);
  lamina_plan_free(plan);
}

/* An input of its own size takes no photographs of another. */
static void test_fixed_side(const char* path, const char* photo) {
  static float input[3 * 64 * 96];
  lamina_model* model = NULL;
  int32_t side = 0;
  EXPECT(lamina_model_load(path, &model) == LAMINA_OK);
  EXPECT(lamina_model_set_preprocess(model, "{\"resize\": 256, \"crop\": 224}") == LAMINA_OK);
  EXPECT_FAILS(lamina_photo_side(model, &side), "the model's input is 64 pixels high, and not 224");
  EXPECT(lamina_model_set_preprocess(model, "imagenet") == LAMINA_OK); /* for the model's own size */
  EXPECT_FAILS(lamina_photo_side(model, &side), "expected square ones, got 64 x 96");
  EXPECT(lamina_photo_read(model, photo, input, 3 * 64 * 96) == LAMINA_OK);
  EXPECT(lamina_model_set_preprocess(model, "{\"resize\": 64, \"crop\": 64}") == LAMINA_OK);
  EXPECT(lamina_photo_side(model, &side) == LAMINA_OK && side == 64);
  lamina_model_free(model);
}

/* What the numbers are, the model says: those of a sigmoid are probabilities, and a lone one is of two classes. */
static void test_sigmoid(const char* path) {
  lamina_model* model = NULL;
  lamina_scored best[2];
  EXPECT(lamina_model_load(path, &model) == LAMINA_OK);
  EXPECT(lamina_model_top_classes(model, (const float[]){0.1f, 0.9f, 0.8f}, 3, best, 2) == LAMINA_OK);
  EXPECT(best[0].index == 1 && best[0].score == 0.9f && best[1].index == 2 && best[1].score == 0.8f);
  EXPECT(lamina_model_top_classes(model, (const float[]){0.25f}, 1, best, 2) == LAMINA_OK);
  EXPECT(best[0].index == 0 && best[0].score == 0.75f && best[1].index == 1 && best[1].score == 0.25f);
  EXPECT_FAILS(lamina_model_top_classes(model, (const float[]){0.25f}, 1, best, 3),
               "expected at most 2 classes, got 3");
  EXPECT_FAILS(lamina_model_top_classes(NULL, (const float[]){0.25f}, 1, best, 1), "model: expected a pointer");
  lamina_model_free(model);
}

/* (python/tests/onnx_writer.py wrote the file: NonZero.) Whether a run decides how large outputs are. */
static void test_counted(const char* path, const lamina_model* digits) {
  lamina_model* model = NULL;
  lamina_plan* plan = NULL;
  int32_t counted = -1;
  const lamina_compile_options options = {.size = sizeof options, .device = "cpu"};
  EXPECT(lamina_model_compile(digits, &options, &plan) == LAMINA_OK);
  EXPECT(lamina_plan_counted(plan, &counted) == LAMINA_OK && counted == 0);
  EXPECT_FAILS(lamina_plan_counted(plan, NULL), "counted: expected a pointer");
  lamina_plan_free(plan);
  EXPECT(lamina_model_load(path, &model) == LAMINA_OK);
  EXPECT(lamina_model_compile(model, &options, &plan) == LAMINA_OK);
  EXPECT(lamina_plan_counted(plan, &counted) == LAMINA_OK && counted == 1);
  const lamina_tensor x = {.data = (float[]){0, 3, 0, 5}, .shape = {4}, .rank = 1, .dtype = LAMINA_F32};
  lamina_tensor places;
  EXPECT(lamina_plan_run(plan, &x, 1, &places, 1, NULL) == LAMINA_OK);
  EXPECT(places.rank == 2 && places.shape[1] == 2 && ((const int64_t*)places.data)[1] == 3);
  EXPECT_FAILS(lamina_plan_run_into(plan, &x, 1, &places, 1, NULL), "");
  lamina_plan_free(plan);
  lamina_model_free(model);
}

/* Classes are named by the program where no file does. */
static void test_labels(const char* path) {
  lamina_model* model = NULL;
  const char* const* labels = NULL;
  size_t count = 0;
  lamina_scored best[2];
  EXPECT(lamina_model_load(path, &model) == LAMINA_OK);
  EXPECT(lamina_model_labels(model, &labels, &count) == LAMINA_OK && count == 0);
  char cat[] = "cat";
  const char* names[] = {cat, "dog", NULL};
  EXPECT(lamina_model_set_labels(model, names, 2) == LAMINA_OK);
  cat[0] = 'b'; /* it has been copied */
  EXPECT(lamina_model_labels(model, &labels, &count) == LAMINA_OK && count == 2 && strcmp(labels[0], "cat") == 0);
  EXPECT_FAILS(lamina_model_top_classes(model, (const float[]){1, 2, 3}, 3, best, 2), "one for each label");
  EXPECT_FAILS(lamina_model_set_labels(model, names, 3), "labels: expected a pointer, got NULL");
  EXPECT_FAILS(lamina_model_set_labels(model, NULL, 3), "labels: expected a pointer, got NULL");
  EXPECT(lamina_model_labels(model, &labels, &count) == LAMINA_OK && count == 2);
  EXPECT(lamina_model_set_labels(model, NULL, 0) == LAMINA_OK);
  EXPECT(lamina_model_labels(model, &labels, &count) == LAMINA_OK && count == 0);
  lamina_model_free(model);
}

void test_models(const char* source_dir, const lamina_model* digits) {
  char lamina[4096], path[4096];
  snprintf(lamina, sizeof lamina, "%s/weights/digits/7.png", source_dir);
  snprintf(path, sizeof path, "%s/tests/golden/detect/open.onnx", source_dir);
  test_preprocess(path, lamina);
  snprintf(path, sizeof path, "%s/tests/golden/detect/raw.onnx", source_dir);
  test_fixed_side(path, lamina);
  snprintf(lamina, sizeof lamina, "%s/weights/digits.safetensors", source_dir);
  test_memory(lamina, path);
  snprintf(path, sizeof path, "%s/tests/golden/open_shape.onnx", source_dir);
  test_open(path);
  snprintf(path, sizeof path, "%s/tests/golden/sigmoid.onnx", source_dir);
  test_sigmoid(path);
  test_labels(path);
  snprintf(path, sizeof path, "%s/tests/golden/nonzero.onnx", source_dir);
  test_counted(path, digits);
  test_outputs(digits);
  test_limits(digits);
}
