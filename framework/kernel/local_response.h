#pragma once

#include <cstdint>

namespace lamina {

/// The numbers of one local response normalisation, passed to kernels by value: channel c is normalised by channels
/// c - size / 2 to c + (size - 1) / 2, those outside counting as zeros.
struct LocalResponse {
  std::int64_t images = 1;
  int channels = 0;
  std::int64_t pixels = 0;
  int size = 5;
  float alpha = 1e-4f;
  float beta = 0.75f;
  float k = 1.0f;
};

}  // namespace lamina
