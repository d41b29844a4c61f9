#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lamina/cuda/runtime/buffer.h"
#include "lamina/cuda/runtime/stream.h"

/// What the tests of kernels that overlap share.
namespace lamina::test {

/// Layers one by one, each waited for, then all of them in `graph` `launches` times, both over poisoned values: the
/// last value must have the same bits. `run(layer, stream)` makes values[layer + 1] from values[layer].
template <class Run>
void expect_no_running_ahead(const std::vector<cuda::Buffer>& values, Run&& run, const cuda::CapturedGraph& graph,
                             int launches, cuda::Stream stream, const std::string& what) {
  const auto result = [&] {
    std::vector<unsigned char> bytes(values.back().bytes());
    cuda::download(0, bytes.data(), values.back().data(), bytes.size(), stream);
    cuda::synchronize(0, stream);
    return bytes;
  };
  const auto poison = [&] {
    for (std::size_t i = 1; i < values.size(); ++i) {
      cuda::fill_bytes(0, values[i].data(), 0xff, values[i].bytes(), stream);
    }
  };
  poison();
  for (std::size_t layer = 0; layer + 1 < values.size(); ++layer) {
    run(layer, stream);
    cuda::synchronize(0, stream);
  }
  const auto one_by_one = result();
  poison();
  for (int i = 0; i < launches; ++i) graph.launch(stream);
  ASSERT_EQ(result(), one_by_one) << what;
}

}  // namespace lamina::test
