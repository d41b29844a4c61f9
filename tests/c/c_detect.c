/* Detectors: the things of a photograph, with turned boxes, skeletons and masks, as tests/detect has them in C++. */

#include "c_test.h"

#ifdef LAMINA_DETECT
static lamina_detector* detector_of(const char* source_dir, const char* name) {
  char path[4096];
  lamina_model* model = NULL;
  lamina_detector* detector = NULL;
  snprintf(path, sizeof path, "%s/tests/golden/detect/%s.onnx", source_dir, name);
  EXPECT(lamina_model_load(path, &model) == LAMINA_OK);
  const lamina_compile_options options = {.size = sizeof options, .device = "cpu"};
  if (strcmp(name, "raw") == 0)
    EXPECT_FAILS(lamina_detector_create(model, &options, 32, &detector),
                 "[1, 3, 64, 96] is of one size, and not of 32");
  EXPECT(lamina_detector_create(model, &options, 0, &detector) == LAMINA_OK);
  lamina_model_free(model);
  return detector;
}

/* The same thing, of a file and of its bytes: all but the pointers. */
static void expect_same(const lamina_detections* some, const lamina_detections* others) {
  EXPECT(some->count == others->count && some->candidates == others->candidates && some->left_out == 0);
  for (size_t i = 0; i < some->count; ++i) {
    const lamina_detection *a = &some->found[i], *b = &others->found[i];
    EXPECT(a->label == b->label && memcmp(&a->score, &b->score, sizeof a->score) == 0);
    EXPECT(strcmp(a->name, b->name) == 0 && memcmp(a->box, b->box, sizeof a->box) == 0);
  }
}

static void test_boxes(const char* source_dir, const char* photo) {
  static char bytes[1 << 20];
  const size_t size = read_file(photo, bytes, sizeof bytes);
  EXPECT(size < sizeof bytes);
  lamina_detector* detector = detector_of(source_dir, "raw");
  lamina_detections *all = NULL, *again = NULL;
  EXPECT(lamina_detector_read(detector, photo, NULL, &all) == LAMINA_OK);
  EXPECT(all->count > 3 && all->width == 451 && all->height == 300 && all->network_ms > 0);
  const lamina_detection best = all->found[0];
  EXPECT(best.label == 0 && strcmp(best.name, "cat") == 0 && fabsf(best.score - 0.97365f) < 1e-4f);
  const float wanted[] = {120.034f, 256.995f, 241.753f, 300};
  for (int i = 0; i < 4; ++i) EXPECT(fabsf(best.box[i] - wanted[i]) < 0.01f);
  EXPECT(best.corners[0] == best.box[0] && best.corners[1] == best.box[1]);
  EXPECT(best.corners[4] == best.box[2] && best.corners[5] == best.box[3]);
  EXPECT(best.points == NULL && best.point_count == 0 && best.mask == NULL && best.mask_count == 0);
  EXPECT(lamina_detector_decode(detector, bytes, size, NULL, &again) == LAMINA_OK);
  expect_same(all, again);
  lamina_detections_free(again);

  const int32_t wanted_class = 1;
  lamina_detect_options options = {
      .size = sizeof options, .confidence = 0.9, .classes = &wanted_class, .class_count = 1, .most = 2};
  EXPECT(lamina_detector_read(detector, photo, &options, &again) == LAMINA_OK);
  EXPECT(again->count > 0 && again->count <= 2 && again->candidates < all->candidates);
  for (size_t i = 0; i < again->count; ++i) EXPECT(again->found[i].label == 1 && again->found[i].score > 0.9f);
  lamina_detections_free(again);
  options.most = -1;
  EXPECT_FAILS(lamina_detector_read(detector, photo, &options, &again), "got -1");
  options = (lamina_detect_options){.size = sizeof options, .confidence = 2};
  EXPECT_FAILS(lamina_detector_read(detector, photo, &options, &again), "confidence from 0 to 1, got 2");
  const int32_t no_class = 3;
  options = (lamina_detect_options){.size = sizeof options, .classes = &no_class, .class_count = 1};
  EXPECT_FAILS(lamina_detector_read(detector, photo, &options, &again), "classes: the model's are 0 to 2, got 3");
  options = (lamina_detect_options){.size = sizeof options, .reserved = 2};
  EXPECT_FAILS(lamina_detector_read(detector, photo, &options, &again), "options.reserved: expected 0, got 2");
  options = (lamina_detect_options){.size = sizeof options, .class_count = 1};
  EXPECT_FAILS(lamina_detector_read(detector, photo, &options, &again),
               "options.classes: expected a pointer, got NULL");
  options.size = 1;
  EXPECT_FAILS(lamina_detector_read(detector, photo, &options, &again), "expected sizeof(lamina_detect_options)");
  EXPECT_STATUS(LAMINA_NO_SUCH_FILE, lamina_detector_read(detector, "missing.png", NULL, &again), "missing.png");
  EXPECT_FAILS(lamina_detector_read(detector, photo, NULL, NULL), "detections: expected a pointer, got NULL");
  EXPECT_FAILS(lamina_detector_decode(detector, bytes, size / 2, NULL, &again), "photo");

  static const uint8_t black[3 * 40 * 30];
  lamina_picture picture = {.data = black, .width = 40, .height = 30, .format = LAMINA_BGR};
  EXPECT(lamina_detector_detect(detector, &picture, NULL, &again) == LAMINA_OK);
  EXPECT(again->width == 40 && again->height == 30);
  lamina_detections_free(again);
  picture.format = 6;
  EXPECT_FAILS(lamina_detector_detect(detector, &picture, NULL, &again), "picture.format: expected");
  lamina_detector_free(detector);
  EXPECT(strcmp(best.name, "cat") == 0); /* what was found does not need its detector */
  lamina_detections_free(all);
}

static void test_tasks(const char* source_dir, const char* photo) {
  lamina_detections* found = NULL;
  lamina_detector* detector = detector_of(source_dir, "pose");
  EXPECT(lamina_detector_read(detector, photo, NULL, &found) == LAMINA_OK && found->count > 0);
  EXPECT(found->found[0].point_count > 3 && fabsf(found->found[0].points[1].x - 43.967f) < 0.01f);
  EXPECT(fabsf(found->found[0].points[1].score - 0.59773f) < 1e-4f);
  lamina_detections_free(found);
  lamina_detector_free(detector);

  detector = detector_of(source_dir, "obb");
  EXPECT(lamina_detector_read(detector, photo, NULL, &found) == LAMINA_OK && found->count > 0);
  const float *box = found->found[0].box, *corners = found->found[0].corners;
  EXPECT(fabsf(corners[0] - 218.443f) < 0.01f && fabsf(corners[1] - 338.647f) < 0.01f);
  EXPECT(corners[1] == box[3] && corners[2] == box[2]); /* which touch the box around them */
  lamina_detections_free(found);
  lamina_detector_free(detector);

  detector = detector_of(source_dir, "segment");
  EXPECT(lamina_detector_read(detector, photo, NULL, &found) == LAMINA_OK && found->count > 0);
  uint32_t pixels = 0;
  for (size_t i = 0; i < found->found[0].mask_count; ++i) pixels += found->found[0].mask[i];
  EXPECT(found->found[0].mask_count > 1 && pixels == 451 * 300);
  lamina_detections_free(found);
  const lamina_detect_options options = {.size = sizeof options, .no_masks = 1};
  EXPECT(lamina_detector_read(detector, photo, &options, &found) == LAMINA_OK && found->count > 0);
  EXPECT(found->found[0].mask == NULL);
  lamina_detections_free(found);
  lamina_detector_free(detector);
}

void test_detectors(const char* source_dir, const lamina_model* digits) {
  char photo[4096];
  lamina_detector* detector = NULL;
  lamina_detections* found = NULL;
  snprintf(photo, sizeof photo, "%s/docs/images/chelsea.png", source_dir);
  test_boxes(source_dir, photo);
  test_tasks(source_dir, photo);
  EXPECT_FAILS(lamina_detector_create(digits, NULL, 0, &detector), "lamina_model_top_classes is for");
  EXPECT_FAILS(lamina_detector_create(digits, NULL, -1, &detector), "side: expected 0 or more pixels, got -1");
  EXPECT_FAILS(lamina_detector_create(NULL, NULL, 0, &detector), "model: expected a pointer, got NULL");
  EXPECT_FAILS(lamina_detector_read(NULL, photo, NULL, &found), "detector: expected a pointer, got NULL");
  EXPECT(detector == NULL && found == NULL);
  lamina_detector_free(NULL);
  lamina_detections_free(NULL);
}
#else
void test_detectors(const char* source_dir, const lamina_model* digits) {
  (void)source_dir;
  lamina_detector* detector = NULL;
  EXPECT_STATUS(LAMINA_UNSUPPORTED, lamina_detector_create(digits, NULL, 0, &detector), "this build has no detectors");
  EXPECT(detector == NULL);
}
#endif
