/* What the tests of the C interface share. */

#ifndef LAMINA_C_TEST_H
#define LAMINA_C_TEST_H

#include <lamina_c.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                                  \
  do {                                                                                                     \
    if (!(condition)) {                                                                                    \
      fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition, lamina_last_error()); \
      exit(1);                                                                                             \
    }                                                                                                      \
  } while (0)

/* That a call fails with a text that has these words in it. */
#define EXPECT_STATUS(status, call, words)              \
  do {                                                  \
    EXPECT((call) == (status));                         \
    EXPECT(strstr(lamina_last_error(), words) != NULL); \
  } while (0)
#define EXPECT_FAILS(call, words) EXPECT_STATUS(LAMINA_ERROR, call, words)

enum { SIDE = 32, PIXELS = 3 * SIDE * SIDE, CLASSES = 10 };

static inline lamina_tensor images(float* data, int64_t count) {
  const lamina_tensor tensor = {.data = data, .shape = {count, 3, SIDE, SIDE}, .rank = 4, .dtype = LAMINA_F32};
  return tensor;
}

static inline size_t read_file(const char* path, char* bytes, size_t room) {
  FILE* file = fopen(path, "rb");
  EXPECT(file != NULL);
  const size_t size = fread(bytes, 1, room, file);
  fclose(file);
  return size;
}

/* Of models in every form: c_models.c. `digits` is the model file of this source folder. */
void test_models(const char* source_dir, const lamina_model* digits);
/* Of detectors: c_detect.c. */
void test_detectors(const char* source_dir, const lamina_model* digits);

#endif
