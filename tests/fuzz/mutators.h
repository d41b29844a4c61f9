#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/target.h"

namespace lamina::fuzz {

/// libFuzzer's mutation of `data`, after which lengths and checksums of the target's format are right again, most of
/// the time: no change would get past them otherwise. Returns the new size.
std::size_t mutate(std::string_view target, std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed);

/// The same for a message of protocol buffers: changes one field, and the lengths of those around it.
std::size_t mutate_message(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed);

}  // namespace lamina::fuzz

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);
