// Whole networks with drawn weights answer the same bits as when golden/structures/checksums/<GPU>/<network>.txt was
// written on a GPU of that architecture with as many multiprocessors, on which alone bits depend (an H100 and an H200
// agreed in all of fourteen networks): LAMINA_UPDATE_GOLDEN=1 writes it anew. Where a change is to add in another
// order, as a merge of kernels may, the failure says how far the answer is from a CPU's in fp32; if that is as before,
// write it anew.

#include <iomanip>

#include "lamina/tensor/device_memory.h"
#include "support/networks.h"
#include "support/plans/golden_plans.h"

namespace lamina::test::checksums_test {
namespace {

std::string checksum(const Tensor& tensor) {
  std::ostringstream text;
  text << std::hex << std::setfill('0') << std::setw(16) << fnv1a(tensor.raw(), tensor.bytes());
  return text.str();
}

class Checksums : public testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    if (detail::cuda_device_count() == 0) GTEST_SKIP() << detail::cuda_unavailable_reason();
    const DeviceDescription described = lamina::describe(Device::cuda());
    const std::string device =
        "sm" + std::to_string(described.architecture) + '_' + std::to_string(described.multiprocessors);
    path_ = std::filesystem::path(LAMINA_TEST_DATA) / "golden" / "structures" / "checksums" / device /
            (std::string(GetParam()) + ".txt");
    if (!std::filesystem::exists(path_) && !is_set("LAMINA_UPDATE_GOLDEN")) GTEST_SKIP() << "there is no " << path_;
    if (std::filesystem::exists(path_)) read_golden();
    graph_ = structured_network(std::string(GetParam()));
  }

  /// The answer for images that are the same in every batch.
  Tensor answer(const CompileOptions& options) const {
    Plan plan = graph_.compile(options);
    Tensor input(plan.input_shapes()[0]);
    draw(input, 1000, 0, 1);
    return plan.run(input).to(Device::cpu()).clone();
  }

  /// How far an answer is from a CPU's.
  std::string distance(const Tensor& from) {
    if (!truth_.defined()) truth_ = answer({.batch = 1});
    std::ostringstream text;
    text << std::setprecision(2) << relative_error(from, truth_);
    return text.str();
  }

  void read_golden() {
    std::istringstream lines(read_file(path_));
    for (std::string precision, batch, sum, far; lines >> precision >> batch >> sum >> far;) {
      golden_[precision + ' ' + batch] = {sum, far};
    }
  }

  struct Entry {
    std::string sum, far;
  };
  std::filesystem::path path_;
  Graph graph_;
  std::map<std::string, Entry> golden_;

 private:
  Tensor truth_;
};

TEST_P(Checksums, OfAnswersAreAsWritten) {
  for (const Precision precision : {Precision::fp32, Precision::fp16}) {
    for (const std::int64_t batch : {1, 32}) {
      const Tensor result = answer({.device = Device::cuda(), .batch = batch, .precision = precision});
      const std::string key = std::string(name(precision)) + ' ' + std::to_string(batch), sum = checksum(result);
      EXPECT_TRUE(std::ranges::all_of(result.values<float>(), [](float v) { return std::isfinite(v); })) << key;
      if (is_set("LAMINA_UPDATE_GOLDEN")) {
        golden_[key] = {sum, distance(result)};
      } else if (const Entry& golden = golden_[key]; sum != golden.sum) {
        ADD_FAILURE() << GetParam() << ' ' << key << ": other bits than in " << path_ << ": " << distance(result)
                      << " of the norm from a CPU's answer in fp32, " << golden.far
                      << " then. If sums are now added in another order, LAMINA_UPDATE_GOLDEN=1 writes the file anew";
      }
    }
  }
  if (!is_set("LAMINA_UPDATE_GOLDEN")) return;
  std::filesystem::create_directories(path_.parent_path());
  std::string text;
  for (const auto& [key, entry] : golden_) text += key + ' ' + entry.sum + ' ' + entry.far + '\n';
  write_file(path_, text);
}

INSTANTIATE_TEST_SUITE_P(Networks, Checksums, testing::ValuesIn(structures),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace
}  // namespace lamina::test::checksums_test
