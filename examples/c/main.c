/* Classes of a photograph, by a model file or an .onnx file.
 *   classify MODEL PHOTO
 */

#include <lamina_c.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program with the library's own words unless the call went well. */
static void check(lamina_status status) {
  if (status == LAMINA_OK) return;
  fprintf(stderr, "classify: %s\n", lamina_last_error());
  exit(1);
}

static size_t numbers_of(const lamina_tensor* tensor) {
  size_t count = 1;
  for (int32_t d = 0; d < tensor->rank; ++d) count *= (size_t)tensor->shape[d];
  return count;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: classify MODEL PHOTO\n");
    return 2;
  }
  lamina_model* model = NULL;
  lamina_plan* plan = NULL;
  check(lamina_model_load(argv[1], &model));
  check(lamina_model_compile(model, NULL, &plan)); /* fp32, one photograph, a GPU if there is one */

  const lamina_port* port =
      NULL; /* of the input, whatever its form: [1, 3, 224, 224], [1, 48, 320, 3], [1, 1, 28, 28] */
  size_t ports = 0;
  check(lamina_plan_inputs(plan, &port, &ports));
  if (ports != 1 || port->dtype != LAMINA_F32) {
    fprintf(stderr, "classify: expected a model with one input of f32\n");
    return 1;
  }
  lamina_tensor input = {.rank = port->rank, .dtype = LAMINA_F32}, scores;
  memcpy(input.shape, port->shape, sizeof input.shape);
  const size_t count = numbers_of(&input);
  float* pixels = malloc(count * sizeof *pixels);
  if (pixels == NULL) return 1;
  lamina_status read = lamina_photo_read(model, argv[2], pixels, count);
  if (read == LAMINA_ERROR) { /* most .onnx files do not say how photographs become their input */
    check(lamina_model_set_preprocess(model, "imagenet"));
    read = lamina_photo_read(model, argv[2], pixels, count);
  }
  check(read);

  input.data = pixels;
  check(lamina_plan_run(plan, &input, 1, &scores, 1, NULL)); /* a view into the plan, valid until the next run */

  const size_t numbers = numbers_of(&scores), top = numbers < 3 ? numbers : 3;
  lamina_scored best[3];
  check(lamina_model_top_classes(model, scores.data, numbers, best, top));
  const char* const* labels = NULL;
  size_t named = 0;
  check(lamina_model_labels(model, &labels, &named));
  for (size_t i = 0; i < top; ++i) {
    const char* label = (size_t)best[i].index < named ? labels[best[i].index] : "";
    printf("%8.2f %%  %3d  %s\n", 100.0 * (double)best[i].score, (int)best[i].index, label);
  }
  free(pixels);
  lamina_plan_free(plan);
  lamina_model_free(model);
  return 0;
}
