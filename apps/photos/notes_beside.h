#pragma once

#include <lamina/lamina.h>

#include <filesystem>

namespace lamina::app {

/// Gives the model names of classes and a preprocessing, where its file says none, as files beside it note them:
/// Hugging Face's preprocessor_config.json and config.json, timm's config.json; of a model in a folder "onnx" also
/// those in the folder around it. What is odd, or of a model of another size, is passed over.
void take_notes_beside(Model& model, const std::filesystem::path& file);

}  // namespace lamina::app
