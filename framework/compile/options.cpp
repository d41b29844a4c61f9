// What CompileOptions may say, and what they mean where they leave it open.

#include "lamina/base/error.h"
#include "lamina/base/thread_pool.h"
#include "lamina/compile/program.h"
#include "lamina/layers/conv2d.h"

namespace lamina::detail {
namespace {

void settle_device(CompileOptions& o) {
  if (!o.description) o.description = describe(o.device);
  if (o.description->device != o.device)
    fail("compile: expected a description of ", o.device, ", got one of ", o.description->device);
  if (o.algorithm.empty()) return;
  if (const std::string_view found = conv_algorithm(o.device.type, o.algorithm); !found.empty()) {
    o.algorithm = found;
    return;
  }
  std::string known;
  for (const std::string_view name : conv_algorithms(o.device.type))
    known += (known.empty() ? "" : ", ") + std::string(name);
  fail("compile: there is no convolution \"", o.algorithm, "\" on ", o.device, "; it has ", known);
}

void settle_threads(CompileOptions& o) {
  if (o.device.is_cuda()) {
    o.threads = 1;
    o.pool.reset();
    return;
  }
  const int there = o.pool ? o.pool->threads() : ThreadPool::default_threads();
  if (o.threads == 0) o.threads = there;
  if (o.pool && o.threads != there)
    fail("compile: expected threads of 0 or ", there, ", as the pool has, got ", o.threads);
}

void check_format(const char* what, Format format) {
  if (is_activation(format.dtype)) return;
  fail("compile: expected ", what, " of f32, f16 or bf16, got ", format.dtype);
}

}  // namespace

void settle_options(const Graph& graph, CompileOptions& o) {
  if (graph.nodes().empty() || (graph.outputs().empty() && o.outputs.empty()))
    fail("compile: expected a graph with an output, got one with none");
  if (o.threads < 0) fail("compile: expected threads of 0 (one for each core) or more, got ", o.threads);
  settle_device(o);
  if (o.keep_all) o.fuse = false;
  settle_threads(o);
  check_format("input_format", o.input_format);
  check_format("output_format", o.output_format);
  if (o.device.is_cuda() && o.linear_weights != DType::f32)
    fail("compile: linear_weights of ", o.linear_weights, " are for the CPU; on a GPU the precision decides");
  if (o.linear_weights != DType::f32 && o.precision != Precision::fp32 &&
      o.linear_weights != storage_type(o.precision)) {
    fail("compile: linear_weights of ", o.linear_weights, " are for precision fp32; in ", name(o.precision),
         " the precision decides");
  }
}

}  // namespace lamina::detail
