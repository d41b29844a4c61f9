#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/cuda/runtime/buffer.h"
#include "lamina/cuda/runtime/constant.h"
#include "lamina/cuda/runtime/device.h"
#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/device_description.h"
#include "lamina/kernel/kernel.h"
#include "lamina/tensor/device_memory.h"
#include "lamina/tensor/tensor.h"

namespace lamina::device_test {
namespace {

class CudaBackend : public testing::Test {
 protected:
  void SetUp() override {
    if (detail::cuda_device_count() == 0) GTEST_SKIP() << detail::cuda_unavailable_reason();
  }
};

/// Of so many elements, at addresses that are multiples of `alignment`, on device 0.
std::unique_ptr<Operator> relu_of(DType dtype, std::size_t count, std::size_t alignment) {
  const View view = {.shape = {static_cast<std::int64_t>(count)}, .format = {dtype}, .alignment = alignment};
  const Preparation preparation = {.inputs = {&view, 1}, .outputs = {&view, 1}, .device = describe(Device::cuda())};
  const PointwiseProblem problem = {.chain = {{Pointwise::relu}}};
  std::unique_ptr<Operator> op = choose(problem, preparation).prepare(problem, preparation);
  op->wait();
  return op;
}

/// y[i] = max(x[i], 0).
void relu(const Operator& op, DType dtype, const void* x, void* y, std::size_t count, cuda::Stream stream) {
  const auto n = static_cast<std::int64_t>(count);
  const Tensor input = Tensor::borrow(const_cast<void*>(x), {n}, dtype, Device::cuda());
  Tensor output = Tensor::borrow(y, {n}, dtype, Device::cuda());
  op.run({&input, 1}, {&output, 1}, {.stream = stream});
}

/// The message of the Error that `action` throws, or nothing.
template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(CudaWithoutDevice, SaysWhyAndFallsBack) {
  if (detail::cuda_device_count() > 0) GTEST_SKIP() << "this host has a CUDA device";
  EXPECT_FALSE(detail::cuda_unavailable_reason().empty());
  EXPECT_EQ(best_device(), Device::cpu());
  const std::string error = error_of([] { cuda::Buffer(0, 16); });
  EXPECT_NE(error.find(detail::cuda_unavailable_reason()), std::string::npos) << error;
  const std::string undescribed = error_of([] { (void)describe(Device::cuda()); });
  EXPECT_NE(undescribed.find(detail::cuda_unavailable_reason()), std::string::npos) << undescribed;
}

TEST_F(CudaBackend, DescribesTheDevice) {
  const cuda::BackendInfo backend = cuda::backend_info();
  EXPECT_TRUE(backend.built);
  EXPECT_FALSE(backend.architectures.empty());
  EXPECT_FALSE(backend.driver_version.empty());
  const cuda::DeviceInfo device = cuda::device_info(0);
  EXPECT_TRUE(device.usable);
  EXPECT_FALSE(device.name.empty());
  EXPECT_EQ(device.name, cuda::device_name(0));
  EXPECT_GT(device.multiprocessors, 0);
  EXPECT_GT(device.memory_bytes, 0u);
}

TEST_F(CudaBackend, RefusesDevicesThatAreNotThere) {
  EXPECT_NE(error_of([] { detail::require_cuda_device(9999); }).find("cuda:9999"), std::string::npos);
  EXPECT_FALSE(error_of([] { detail::require_cuda_device(-1); }).empty());
  EXPECT_FALSE(error_of([] { cuda::device_info(9999); }).empty());
  EXPECT_FALSE(error_of([] { cuda::OwnedStream(9999); }).empty());
  EXPECT_NO_THROW(cuda::Buffer(0, 16));
}

TEST_F(CudaBackend, SurvivesRunningOutOfMemory) {
  const std::string error = error_of([] { cuda::Buffer(0, std::size_t{1} << 50); });
  EXPECT_NE(error.find("1125899906842624 bytes"), std::string::npos) << error;
  EXPECT_NE(error.find("free"), std::string::npos) << error;
  EXPECT_NE(error.find("cuda:0"), std::string::npos) << error;

  // Until nothing is left, for real.
  std::vector<cuda::Buffer> all;
  std::string exhausted;
  for (std::size_t bytes = std::size_t{16} << 30; bytes >= (std::size_t{64} << 20) && all.size() < 1000;) {
    const std::string failure = error_of([&] { all.emplace_back(0, bytes); });
    if (failure.empty()) continue;
    exhausted = failure;
    bytes /= 2;
  }
  EXPECT_NE(exhausted.find("out of memory"), std::string::npos);
  all.clear();

  const std::vector<float> values = {1, 2, 3};
  EXPECT_EQ(Tensor::from(values, {3}).to(Device::cuda()).to(Device::cpu()).values<float>()[2], 3.0f);
}

TEST_F(CudaBackend, CopiesBothWaysAndWithin) {
  std::vector<std::int32_t> values(100'003);
  std::iota(values.begin(), values.end(), 7);
  const std::size_t bytes = values.size() * sizeof(values[0]);
  const cuda::Buffer first(0, values.data(), bytes);
  const cuda::Buffer second(0, bytes);
  detail::copy_bytes(second.data(), Device::cuda(), first.data(), Device::cuda(), bytes);
  std::vector<std::int32_t> back(values.size());
  detail::copy_bytes(back.data(), Device::cpu(), second.data(), Device::cuda(), bytes);
  EXPECT_EQ(values, back);
}

TEST_F(CudaBackend, StreamsCopyAsynchronouslyAndTime) {
  constexpr std::size_t count = 1 << 20;
  constexpr std::size_t bytes = count * sizeof(float);
  const cuda::OwnedStream stream(0);
  const cuda::PinnedBuffer out(bytes);
  const cuda::PinnedBuffer in(bytes);
  for (std::size_t i = 0; i < count; ++i) static_cast<float*>(out.data())[i] = static_cast<float>(i) - 1000;
  std::memset(in.data(), 0xff, bytes);
  const cuda::Buffer device(0, bytes);
  const cuda::Buffer copy(0, bytes);
  cuda::Event begin(0);
  cuda::Event end(0);
  begin.record(stream.get());
  cuda::upload(0, device.data(), out.data(), bytes, stream.get());
  cuda::copy_on_device(0, copy.data(), device.data(), bytes, stream.get());
  cuda::fill_bytes(0, device.data(), 0, bytes, stream.get());
  cuda::download(0, in.data(), copy.data(), bytes, stream.get());
  end.record(stream.get());
  cuda::synchronize(0, stream.get());
  EXPECT_EQ(std::memcmp(in.data(), out.data(), bytes), 0);
  EXPECT_GT(cuda::Event::milliseconds(begin, end), 0.0f);
}

TEST_F(CudaBackend, CapturedWorkRunsWhenLaunched) {
  constexpr std::size_t count = 1000;
  std::vector<float> values(count, -2.0f);
  values[17] = 5.0f;
  const cuda::Buffer input(0, values.data(), count * sizeof(float));
  const cuda::Buffer output(0, count * sizeof(float));
  const cuda::OwnedStream stream(0);
  cuda::fill_bytes(0, output.data(), 0xff, output.bytes(), stream.get());
  const auto op = relu_of(DType::f32, count, 16);
  const cuda::CapturedGraph graph(
      0, [&](cuda::Stream s) { relu(*op, DType::f32, input.data(), output.data(), count, s); });
  cuda::synchronize(0, stream.get());
  std::vector<float> result(count);
  detail::copy_bytes(result.data(), Device::cpu(), output.data(), Device::cuda(), output.bytes());
  EXPECT_TRUE(std::isnan(result[17])) << "capturing executed the work";
  graph.launch(stream.get());
  cuda::synchronize(0, stream.get());
  detail::copy_bytes(result.data(), Device::cpu(), output.data(), Device::cuda(), output.bytes());
  EXPECT_EQ(result[16], 0.0f);
  EXPECT_EQ(result[17], 5.0f);
  EXPECT_FALSE(error_of([] { cuda::CapturedGraph(0, [](cuda::Stream) { detail::fail("no"); }); }).empty());
  EXPECT_NO_THROW(graph.launch(stream.get()));
  cuda::synchronize(0, stream.get());
}

TEST_F(CudaBackend, MovedFromOwnersAreEmpty) {
  cuda::Buffer a(0, 64);
  cuda::Buffer b(std::move(a));
  EXPECT_NE(b.data(), nullptr);
  a = std::move(b);
  EXPECT_NE(a.data(), nullptr);
  cuda::OwnedStream first(0);
  const cuda::OwnedStream second(std::move(first));
  EXPECT_NE(second.get(), nullptr);
}

/// ReLU of `count` values of T, `offset` elements into a buffer, against the definition; in place or not.
template <class T>
void check_relu(std::size_t count, std::size_t offset, bool in_place) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float special[] = {std::nanf(""), -std::nanf(""), infinity, -infinity, 0.0f,
                           -0.0f,         1e-40f,         -1e-40f,  3.5f,      -3.5f};
  const std::size_t guard = 16;
  Tensor host({static_cast<std::int64_t>(count + offset + guard)}, DType::f32);
  for (std::size_t i = 0; i < count + offset + guard; ++i) host.values<float>()[i] = special[(i * 7 + i / 10) % 10];
  const Tensor input = host.to(dtype_of<T>);
  const Tensor source = input.to(Device::cuda());
  Tensor target = in_place ? source : input.to(Device::cuda());
  const T* from = static_cast<const T*>(source.raw()) + offset;
  T* to = static_cast<T*>(target.raw()) + offset;
  const auto op = relu_of(dtype_of<T>, count, offset == 0 ? 16 : sizeof(T));
  relu(*op, dtype_of<T>, from, to, count, nullptr);
  const Tensor result = target.to(Device::cpu()).to(DType::f32);
  const Tensor before = input.to(DType::f32);
  for (std::size_t i = 0; i < count + offset + guard; ++i) {
    const float x = before.values<float>()[i];
    const float y = result.values<float>()[i];
    const bool touched = i >= offset && i < offset + count;
    const float expected = touched && x < 0 ? 0.0f : x;
    ASSERT_TRUE(std::isnan(expected) ? std::isnan(y) : y == expected)
        << name(dtype_of<T>) << ", " << count << " elements from " << offset << ", element " << i << ": " << y
        << " for " << x;
  }
}

TEST_F(CudaBackend, ReluKeepsNanOnEverySize) {
  for (const std::size_t count : {0u, 1u, 3u, 4u, 5u, 7u, 8u, 9u, 255u, 256u, 1023u, 1025u, 100'003u}) {
    for (const std::size_t offset : {0u, 1u, 4u, 8u}) {
      for (const bool in_place : {false, true}) {
        check_relu<float>(count, offset, in_place);
        check_relu<half>(count, offset, in_place);
        check_relu<bfloat16>(count, offset, in_place);
      }
    }
  }
}

TEST_F(CudaBackend, ConstantsOfOneContentAreOneCopy) {
  std::vector<unsigned char> bytes((std::size_t{5} << 20) / 2 + 5);  // more than one piece of the hash, and a short one
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 31 >> 3);
  const cuda::Constant first(0, bytes.data(), bytes.size());
  const std::vector<unsigned char> same = bytes;
  EXPECT_EQ(cuda::Constant(0, same.data(), same.size()).data(), first.data());
  std::vector<unsigned char> back(bytes.size());
  detail::copy_bytes(back.data(), Device::cpu(), first.data(), Device::cuda(0), back.size());
  EXPECT_EQ(back, bytes);
  for (const std::size_t place : {std::size_t{0}, std::size_t{1} << 20, bytes.size() - 1}) {
    std::vector<unsigned char> other = bytes;
    other[place] ^= 1;
    EXPECT_NE(cuda::Constant(0, other.data(), other.size()).data(), first.data()) << place;
  }
  EXPECT_NE(cuda::Constant(0, bytes.data(), bytes.size() - 1).data(), first.data());
}

}  // namespace
}  // namespace lamina::device_test
