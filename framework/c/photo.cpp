#include <algorithm>
#include <utility>

#include "lamina/c/handles.h"
#include "lamina/images/named_preprocess.h"

namespace {

using lamina::c::guarded;
using lamina::c::require;
using lamina::detail::fail;

static_assert(static_cast<lamina_pixel_format>(lamina::PixelFormat::bgra) == LAMINA_BGRA);
static_assert(static_cast<lamina_pixel_format>(lamina::PixelFormat::nv12) == LAMINA_NV12);

lamina::Preprocess settings_of(const lamina_model* model) {
  require(model, "model");
  return *model->model.preprocess;
}

/// Writes what a model sees of a picture.
void convert(const lamina_model* model, const lamina::ImageView& picture, float* input, std::size_t count) {
  require(input, "input");
  const lamina::Preprocess settings = settings_of(model);
  const lamina::Tensor seen =
      lamina::as_input(lamina::preprocess(picture, settings), model->model.graph).to(lamina::DType::f32);
  if (std::cmp_not_equal(count, seen.numel())) fail("input: expected room for ", seen.numel(), " values, got ", count);
  std::ranges::copy(seen.values<float>(), input);
}

void best_of(const float* output, std::size_t numbers, lamina::Scores kind, lamina_scored* best, std::size_t count,
             std::size_t labels = 0) {
  require(output, "output");
  const auto extent = static_cast<std::int64_t>(numbers);
  const auto scores = lamina::class_scores(lamina::Tensor::from(std::span(output, numbers), {1, extent}), kind);
  if (count > static_cast<std::size_t>(scores.numel()))
    fail("count: expected at most ", scores.numel(), " classes, got ", count);
  if (labels > 0 && std::cmp_not_equal(labels, scores.numel()))
    fail("numbers: expected ", labels, ", one for each label of the model, got ", scores.numel());
  if (count > 0) require(best, "best");
  const auto same = [](const lamina::Scored& scored) { return lamina_scored{scored.index, scored.score}; };
  std::ranges::transform(lamina::top_k(scores, static_cast<int>(count)), best, same);
}

}  // namespace

lamina::ImageView lamina::c::view_of(const lamina_picture* picture) {
  require(picture, "picture");
  if (picture->format < LAMINA_RGB || picture->format > LAMINA_NV12)
    fail("picture.format: expected LAMINA_RGB to LAMINA_NV12, got ", picture->format);
  if (picture->reserved != 0) fail("picture.reserved: expected 0, got ", picture->reserved);
  return {picture->data,  picture->width, picture->height, picture->stride, static_cast<PixelFormat>(picture->format),
          picture->chroma};
}

lamina_status lamina_model_set_preprocess(lamina_model* model, const char* preprocess) {
  return guarded([&] {
    require(model, "model", preprocess, "preprocess");
    const std::string_view text = preprocess;
    const bool json = text.find('{') != text.npos;
    model->model.preprocess =
        json ? lamina::detail::preprocess_from_json(text) : lamina::named_preprocess(text, model->model.graph);
  });
}

lamina_status lamina_photo_side(const lamina_model* model, int32_t* side) {
  return guarded([&] {
    require(side, "side");
    const lamina::Preprocess settings = settings_of(model);
    if (settings.width() != settings.crop)
      fail("photo: expected square ones, got ", settings.crop, " x ", settings.width());
    const lamina::Graph& graph = model->model.graph;
    std::optional<lamina::PictureInput> form;
    for (const int i : graph.inputs()) form = lamina::picture_input(*graph.nodes()[static_cast<std::size_t>(i)].shape);
    if (form && form->height >= 0 && form->height != settings.crop)
      fail("photo: the model's input is ", form->height, " pixels high, and not ", settings.crop,
           "; lamina_model_set_preprocess takes a JSON object, whose \"crop\" says how many");
    *side = settings.crop;
  });
}

lamina_status lamina_photo_read(const lamina_model* model, const char* path, float* input, size_t count) {
  return guarded([&] {
    require(path, "path");
    convert(model, lamina::read_image(path, lamina::as_seen), input, count);
  });
}

lamina_status lamina_photo_decode(const lamina_model* model, const void* bytes, size_t size, float* input,
                                  size_t count) {
  return guarded([&] {
    require(bytes, "bytes");
    const std::span file(static_cast<const std::byte*>(bytes), size);
    convert(model, lamina::decode_image(file, "photo", lamina::as_seen), input, count);
  });
}

lamina_status lamina_photo_convert(const lamina_model* model, const lamina_picture* picture, float* input,
                                   size_t count) {
  return guarded([&] { convert(model, lamina::c::view_of(picture), input, count); });
}

lamina_status lamina_model_top_classes(const lamina_model* model, const float* output, size_t numbers,
                                       lamina_scored* best, size_t count) {
  return guarded([&] {
    require(model, "model");
    best_of(output, numbers, lamina::scores_of(model->model.graph), best, count, model->model.labels.size());
  });
}

lamina_status lamina_top_classes(const float* logits, size_t classes, lamina_scored* best, size_t count) {
  return guarded([&] { best_of(logits, classes, lamina::Scores::logits, best, count); });
}
