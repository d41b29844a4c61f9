#include "lamina/kernel/precision.h"

#include <gtest/gtest.h>

namespace lamina::precision_test {
namespace {

TEST(Precision, EachHasItsStorageType) {
  EXPECT_EQ(storage_type(Precision::fp32), DType::f32);
  EXPECT_EQ(storage_type(Precision::tf32), DType::f32);
  EXPECT_EQ(storage_type(Precision::fp16), DType::f16);
  EXPECT_EQ(storage_type(Precision::bf16), DType::bf16);
}

TEST(Precision, NamesAreRead) {
  for (const Precision p : {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16}) {
    EXPECT_EQ(parse_precision(name(p)), p);
  }
}

}  // namespace
}  // namespace lamina::precision_test
