#pragma once

#include <lamina/lamina.h>

#include <string>
#include <string_view>

namespace lamina::app {

/// The ready-made network `arch` with as many classes as the weights have, 1000 where they do not say.
Graph fitting_network(std::string_view arch, const Weights& weights);

/// The same weights without what wrappers put before every name: "module.", "_orig_mod.", "model.".
Weights unwrapped(const Weights& weights);

/// Whose weights these are, for an error message: "they are those of resnet18", "they look like those of ResNet50,
/// ...". Empty where it cannot be told.
std::string whose(const Weights& weights);

}  // namespace lamina::app
