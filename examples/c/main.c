/* Classes of a photograph, by a model file or an .onnx file.
 *   classify MODEL PHOTO
 */

#include <lamina_c.h>

#include <stdio.h>
#include <stdlib.h>

/* Ends the program with the library's own words unless the call went well. */
static void check(lamina_status status) {
  if (status == LAMINA_OK) return;
  fprintf(stderr, "classify: %s\n", lamina_last_error());
  exit(1);
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

  int32_t side = 0;
  if (lamina_photo_side(model, &side) != LAMINA_OK) { /* most .onnx files do not say how photographs become their input */
    check(lamina_model_set_preprocess(model, "imagenet"));
    check(lamina_photo_side(model, &side));
  }
  const size_t count = 3 * (size_t)side * (size_t)side;
  float* pixels = malloc(count * sizeof *pixels);
  if (pixels == NULL) return 1;
  check(lamina_photo_read(model, argv[2], pixels, count));

  const lamina_tensor input = {.data = pixels, .shape = {1, 3, side, side}, .rank = 4, .dtype = LAMINA_F32};
  lamina_tensor logits; /* a view into the plan, valid until the next run */
  check(lamina_plan_run(plan, &input, 1, &logits, 1, NULL));

  enum { top = 3 };
  lamina_scored best[top];
  check(lamina_model_top_classes(model, logits.data, (size_t)logits.shape[1], best, top));
  const char* const* labels = NULL;
  size_t named = 0;
  check(lamina_model_labels(model, &labels, &named));
  for (int i = 0; i < top; ++i) {
    const char* label = (size_t)best[i].index < named ? labels[best[i].index] : "";
    printf("%8.2f %%  %3d  %s\n", 100.0 * (double)best[i].score, (int)best[i].index, label);
  }
  free(pixels);
  lamina_plan_free(plan);
  lamina_model_free(model);
  return 0;
}
