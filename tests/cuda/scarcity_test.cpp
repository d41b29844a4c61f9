// What a device can refuse, refused in turn: memory on it and pinned memory, streams, events, captured graphs. Each
// time compiling and running end as if nothing had been, or by Error; nothing leaks, and what is tried next works.
// The linker puts the __wrap_ functions in place of the CUDA runtime's (tests/CMakeLists.txt).

#include <cuda_runtime_api.h>

#include <atomic>
#include <limits>

#include "lamina/graph/graph.h"
#include "lamina/pool/plan_pool.h"
#include "support/networks.h"
#include "support/on_gpu.h"
#include "support/plans/seeded_network.h"

namespace {

constexpr long never = std::numeric_limits<long>::max();
std::atomic<long> countdown{never};  // the requests before the one that is refused
std::atomic<bool> all_after{false};
std::atomic<long> live{0};  // what was given and not taken back

template <class... Parameters, class... Arguments>
cudaError_t give(cudaError_t (*real)(Parameters...), Arguments... arguments) {
  if (countdown != never) {
    const long before = countdown--;
    if (before == 0 || (before < 0 && all_after)) return cudaErrorMemoryAllocation;
  }
  const cudaError_t status = real(arguments...);
  if (status == cudaSuccess) ++live;
  return status;
}

template <class... Parameters, class... Arguments>
cudaError_t take_back(cudaError_t (*real)(Parameters...), Arguments... arguments) {
  const cudaError_t status = real(arguments...);
  if (status == cudaSuccess) --live;
  return status;
}

}  // namespace

extern "C" {

cudaError_t __real_cudaMalloc(void**, std::size_t);
cudaError_t __real_cudaFree(void*);
cudaError_t __real_cudaMallocHost(void**, std::size_t);
cudaError_t __real_cudaFreeHost(void*);
cudaError_t __real_cudaStreamCreateWithFlags(cudaStream_t*, unsigned);
cudaError_t __real_cudaStreamDestroy(cudaStream_t);
cudaError_t __real_cudaEventCreate(cudaEvent_t*);
cudaError_t __real_cudaEventDestroy(cudaEvent_t);
cudaError_t __real_cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long);
cudaError_t __real_cudaGraphExecDestroy(cudaGraphExec_t);

cudaError_t __wrap_cudaMalloc(void** p, std::size_t n) { return give(__real_cudaMalloc, p, n); }
/// Of nothing: a call that wants the device's context.
cudaError_t __wrap_cudaFree(void* p) { return p == nullptr ? __real_cudaFree(p) : take_back(__real_cudaFree, p); }
cudaError_t __wrap_cudaMallocHost(void** p, std::size_t n) { return give(__real_cudaMallocHost, p, n); }
cudaError_t __wrap_cudaFreeHost(void* p) { return take_back(__real_cudaFreeHost, p); }
cudaError_t __wrap_cudaStreamCreateWithFlags(cudaStream_t* s, unsigned f) {
  return give(__real_cudaStreamCreateWithFlags, s, f);
}
cudaError_t __wrap_cudaStreamDestroy(cudaStream_t s) { return take_back(__real_cudaStreamDestroy, s); }
cudaError_t __wrap_cudaEventCreate(cudaEvent_t* e) { return give(__real_cudaEventCreate, e); }
cudaError_t __wrap_cudaEventDestroy(cudaEvent_t e) { return take_back(__real_cudaEventDestroy, e); }
cudaError_t __wrap_cudaGraphInstantiate(cudaGraphExec_t* e, cudaGraph_t g, unsigned long long f) {
  return give(__real_cudaGraphInstantiate, e, g, f);
}
cudaError_t __wrap_cudaGraphExecDestroy(cudaGraphExec_t e) { return take_back(__real_cudaGraphExecDestroy, e); }

}  // extern "C"

namespace lamina::scarcity_test {
namespace {

class CudaScarcity : public test::OnGpu {
 protected:
  void TearDown() override { countdown = never; }

  /// `work` checks its own results.
  static void expect_survival(const std::function<void()>& work) {
    work();  // what is made once and kept
    const long before = live;
    for (const bool others_too : {false, true}) {
      all_after = others_too;
      long refused = 0;
      for (long n = 0;; ++n) {
        SCOPED_TRACE(detail::concat("request ", n, others_too ? " and all after it" : "", " is refused"));
        countdown = n;
        try {
          work();
        } catch (const Error&) {
        }
        const bool happened = countdown < 0;
        countdown = never;
        EXPECT_EQ(live, before) << "leaked";
        if (testing::Test::HasFailure()) return;
        if (!happened) break;
        ++refused;
      }
      EXPECT_GT(refused, 0);
    }
    work();
  }
};
LAMINA_ON_GPUS(CudaScarcity);

TEST_P(CudaScarcity, CompilingAndRunning) {
  const Graph graph = test::branching_network();
  const Tensor x = test::random_tensor({2, 3, 16, 16}, 1);
  for (const Precision precision : {Precision::fp32, Precision::fp16}) {
    const CompileOptions options{.device = gpu(), .batch = 2, .precision = precision};
    const Tensor expected = graph.compile(options).run({&x, 1})[0].clone();
    expect_survival([&] {
      Plan another = graph.compile(options);
      for (int run = 0; run < 3; ++run) {  // the second is captured
        const Tensor y = another.run({&x, 1})[0];
        EXPECT_EQ(std::memcmp(y.raw(), expected.raw(), expected.bytes()), 0);
      }
    });
  }
}

TEST_P(CudaScarcity, AWholeNetwork) {
  const Graph graph = test::seeded_network("alexnet");
  const Tensor x = test::random_tensor({1, 3, 224, 224}, 1);
  const CompileOptions options{.device = gpu()};
  const Tensor expected = graph.compile(options).run({&x, 1})[0].clone();
  expect_survival([&] {
    Plan another = graph.compile(options);
    for (int run = 0; run < 2; ++run) {
      const Tensor y = another.run({&x, 1})[0];
      EXPECT_EQ(std::memcmp(y.raw(), expected.raw(), expected.bytes()), 0);
    }
  });
}

TEST_P(CudaScarcity, TensorsThatAreMoved) {
  const Tensor x = test::random_tensor({3, 5}, 1);
  expect_survival([&] {
    const Tensor back = x.to(gpu()).to(Device::cpu());
    EXPECT_EQ(std::memcmp(back.raw(), x.raw(), x.bytes()), 0);
    (void)Tensor::pinned({7}, DType::f32);
  });
}

TEST_P(CudaScarcity, Pools) {
  const Graph graph = test::small_network();
  const Tensor x = test::random_tensor({1, 3, 12, 10}, 1);
  expect_survival([&] {
    PlanPool pool(graph, {.device = gpu(), .batch = 2}, {.batches = {1, 2}});
    auto first = pool.submit({x}), second = pool.submit({x});
    (void)first.get();
    (void)second.get();
  });
}

}  // namespace
}  // namespace lamina::scarcity_test
