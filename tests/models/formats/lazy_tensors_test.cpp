// Files written tensor by tensor equal files written whole. Numbers that do not fit a narrower type
// are reported.
#include "penstock/models/formats/lazy_tensors.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/models/formats/torch_safetensors.h"
#include "tests/base/temp_directory.h"

namespace penstock {
namespace {

LazyTensor lazy(const std::string& name, const at::Tensor& value, at::ScalarType type, int& made) {
  return {.name = name, .type = type, .shape = value.sizes().vec(), .make = [value, &made] {
            ++made;
            return value;
          }};
}

std::string written(const std::string& path, std::vector<LazyTensor> tensors) {
  const auto file = real_file_system().open(path, OpenMode::kTruncate);
  write_lazy_tensors(*file, std::move(tensors), {{"format", "pt"}});
  file->close();
  return real_file_system().read(path);
}

TEST(LazyTensors, AreTheSameFileAsTensorsWrittenWhole) {
  const testing::TempDirectory temp;
  const std::string path = temp.path("lazy");
  const at::Tensor a = torch::randn({3, 4}), b = torch::randn({5}).to(at::kBFloat16),
                   transposed = torch::randn({2, 6}).t();
  int made = 0;
  const std::string bytes =
      written(path, {lazy("b", b, at::kBFloat16, made), lazy("a", a, at::kFloat, made),
                     lazy("t", transposed, at::kHalf, made)});
  EXPECT_EQ(made, 3);
  save_tensors(real_file_system(), temp.path() / "whole",
               {{"a", a}, {"b", b}, {"t", transposed.to(at::kHalf)}}, {{"format", "pt"}});
  EXPECT_EQ(bytes, real_file_system().read(temp.path() / "whole"));
}

TEST(LazyTensors, RefuseWhatDoesNotFit) {
  const testing::TempDirectory temp;
  const std::string path = temp.path("lazy");
  int made = 0;
  const at::Tensor large = torch::tensor({1e5f});
  EXPECT_THROW(written(path, {lazy("large", large, at::kHalf, made)}), Error);
  EXPECT_NO_THROW(written(path, {lazy("large", large, at::kBFloat16, made)}));
  LazyTensor other = lazy("other", large, at::kFloat, made);
  other.shape = {2};
  EXPECT_THROW(written(path, {other}), AssertionError);
}

}  // namespace
}  // namespace penstock
