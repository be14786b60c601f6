#include "penstock/models/formats/torch_safetensors.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstring>

#include "tests/base/error_of.h"
#include "tests/base/temp_directory.h"

namespace penstock {
namespace {

using testing::TempDirectory;

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const auto x = a.contiguous(), y = b.contiguous();
  return x.scalar_type() == y.scalar_type() && x.sizes() == y.sizes() &&
         (x.numel() == 0 || std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0);
}

TEST(TensorFiles, RoundTripsBitForBit) {
  const TempDirectory temp;
  const auto path = temp.path() / "t.safetensors";
  // Every 16-bit pattern, which includes every kind of NaN, as bf16, f16 and i16.
  const auto bits = torch::arange(-32768, 32768, torch::kInt).to(torch::kShort);
  const auto rising = torch::arange(12, torch::kFloat).view({3, 4});
  TensorMap tensors = {{"i16", bits},
                       {"bf16", bits.view(torch::kBFloat16)},
                       {"f16", bits.view(torch::kHalf).view({256, 256})},
                       {"f32", torch::full({2}, std::nanf("0x123"))},
                       {"f64", torch::tensor({-0.0, 1e-310}, torch::kDouble)},
                       {"i64", torch::tensor(INT64_MIN, torch::kLong)},
                       {"i32", torch::tensor({1, -1}, torch::kInt)},
                       {"i8", torch::tensor({1, -1}, torch::kChar)},
                       {"u8", torch::arange(256, torch::kInt).to(torch::kByte)},
                       {"bool", torch::tensor({true, false})},
                       {"empty", torch::zeros({0, 7})},
                       {"transposed", rising.t()},
                       {"strided", rising.slice(1, 0, 4, 2)},
                       {"parameter", torch::ones({2}).requires_grad_()},
                       {"shared", rising}};
  save_tensors(real_file_system(), path, tensors, {{"format", "pt"}});
  const auto loaded = load_tensors(path);
  ASSERT_EQ(loaded.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_TRUE(same_bits(loaded.at(name), tensor.detach())) << name;
    EXPECT_TRUE(loaded.at(name).is_contiguous()) << name;
  }
  EXPECT_EQ(tensor_bytes({{"a", rising}, {"b", bits}}), 12u * 4 + 65536 * 2);
}

TEST(TensorFiles, LoadedTensorsOutliveTheFile) {
  const TempDirectory temp;
  const auto path = temp.path() / "t.safetensors";
  save_tensors(real_file_system(), path, {{"a", torch::arange(5000)}});
  auto loaded = load_tensors(path);
  save_tensors(real_file_system(), path, {{"a", torch::zeros({1})}});
  EXPECT_TRUE(torch::equal(loaded.at("a"), torch::arange(5000)));
  loaded.at("a").zero_();
}

TEST(TensorFiles, RefusesTypesOfNoFile) {
  const TempDirectory temp;
  const auto path = temp.path() / "t.safetensors";
  testing::expect_error(
      [&] {
        save_tensors(real_file_system(), path, {{"z", torch::zeros({2}, torch::kComplexFloat)}});
      },
      {"'z'"});
  EXPECT_TRUE(real_file_system().list(temp.path()).empty());
  EXPECT_THROW(load_tensors(path), Error);
}

}  // namespace
}  // namespace penstock
