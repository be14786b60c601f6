// More rows than the kernels for few rows usually take. With RowsAlone, each row has the bits of
// the same row computed alone, and the kernels for few rows run.
#include "penstock/ops/rows_alone.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/ops/ops.h"
#include "penstock/ops/pointwise.h"
#include "penstock/ops/stored_matrix.h"

namespace penstock::ops::rows_alone_test {
namespace {

constexpr std::int64_t kRows = 75;

/// Whether rows computed together equal the rows computed one by one, bit for bit.
template <class Call>
bool same_alone(const at::Tensor& x, Call call) {
  const at::Tensor together = call(x);
  for (std::int64_t r = 0; r < x.size(0); ++r)
    if (!torch::equal(together[r], call(x.narrow(0, r, 1))[0])) return false;
  return true;
}

TEST(RowsAlone, LinearOfManyRowsHasTheBitsOfEachAlone) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(1);
  for (const std::int64_t depth : {64, 77, 333}) {
    const at::Tensor x = torch::randn({kRows, depth}), w = torch::randn({130, depth}),
                     b = torch::randn({130});
    const RowsAlone alone;
    EXPECT_TRUE(same_alone(x, [&](const at::Tensor& rows) {
      return ops::linear(rows, w, std::optional(b));
    })) << depth;
  }
}

TEST(RowsAlone, StoredMatricesToo) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(2);
  const at::Tensor w = torch::randn({96, 64}).to(torch::kBFloat16), x = torch::randn({kRows, 64});
  const StoredMatrix stored{.depth = 64,
                            .pieces = {{.type = RowType::bf16,
                                        .rows = 96,
                                        .data = static_cast<const std::byte*>(w.data_ptr())}}};
  const RowsAlone alone;
  EXPECT_TRUE(same_alone(x, [&](const at::Tensor& rows) { return linear(rows, stored); }));
}

TEST(RowsAlone, PointwiseFunctionsDoNotKnowTheirPlace) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(3);
  const auto sigmoid = [](const at::Tensor& z) { return z.sigmoid(); };
  for (const std::int64_t width : {1, 4, 33}) {
    const at::Tensor x = torch::randn({kRows, width});
    EXPECT_TRUE(
        same_alone(x, [&](const at::Tensor& rows) { return pointwise_alike(rows, sigmoid); }));
    EXPECT_TRUE(at::allclose(pointwise_alike(x, sigmoid), x.sigmoid(), 1e-6));
  }
  EXPECT_EQ(pointwise_alike(torch::randn({0, 4}), sigmoid).size(1), 4);
}

TEST(RowsAlone, IsASettingOfItsScope) {
  EXPECT_FALSE(rows_alone());
  EXPECT_TRUE(takes_few_rows(16));
  EXPECT_FALSE(takes_few_rows(17));
  {
    const RowsAlone alone;
    EXPECT_TRUE(takes_few_rows(1000));
  }
  EXPECT_FALSE(takes_few_rows(17));
}

}  // namespace
}  // namespace penstock::ops::rows_alone_test
