#pragma once

#include <lamina/lamina.h>

#include <string>

namespace lamina::app {

/// "NVIDIA H200" or "Intel(R) Xeon(R) Processor, 2 threads".
std::string describe_device(Device device, int threads);

/// Writes a text file that appears whole or not at all. Throws Error if it cannot be written.
void write_text(const std::string& path, const std::string& text);

}  // namespace lamina::app
