#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/graph/model.h"

namespace lamina::detail {

/// A Python literal such as {0: 'person', 1: "it's"}, as exporters write it, or JSON, as JSON: numbers that are keys
/// become texts. What is no such literal becomes text that is no JSON either.
LAMINA_API std::string json_of_python(std::string_view literal);

/// What is noted under a key of the metadata; empty where nothing is.
std::string note(const Model& model, std::string_view key);

/// By number, of {0: 'a', 2: 'c'} or ['a', 'b', 'c'], or of one on each line. Throws Error, naming `where` they are,
/// for anything else.
LAMINA_API std::vector<std::string> names_in(const std::string& literal, const std::string& where);

/// Gives the model names of classes and a preprocessing, where it says none itself, as its exporter noted them:
/// Ultralytics' "task", "names", "imgsz"; "mean", "std", "scale" and "labels" of others. What is odd is passed over,
/// with a warning.
void take_notes(Model& model);

/// Whether a mean and a deviation are of levels from 0 to 255 as they are, not from 0 to 1: one of them is above 1.
LAMINA_API bool are_of_levels(const Rgb& mean, const Rgb& std);

/// Pixels of a side as a file says it; 0 for what is none.
LAMINA_API int noted_side(double side);

/// Reads notes; of what is not as exporters write it the rest is passed over, and a warning of the model's says so.
LAMINA_API void passing_over_oddities(Model& model, const std::function<void()>& read);

/// Sets a preprocessing that the exporter of a model of one input noted, unless it is of another size than that. A crop
/// of 0 is as large as the input.
LAMINA_API void set_noted(Model& model, Preprocess noted);

}  // namespace lamina::detail
