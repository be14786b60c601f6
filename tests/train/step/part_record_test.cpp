// The size of the record that ranks exchange in each step.
#include "penstock/train/step/part_record.h"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace penstock {
namespace {

/// The record of a rank with `parts` parts, which pass through `layers` layers with `experts`
/// experts.
RankRecord record_of(int parts, int layers, int experts) {
  RankRecord out{.seconds = 0.1};
  for (int p = 0; p < parts; ++p) {
    PartRecord& part = out.parts.emplace_back();
    part.part = static_cast<std::size_t>(p);
    part.weight = 0.1;
    part.seen.loss = part.seen.total_loss = 3.2;
    part.seen.tokens = part.seen.bytes = 16384;
    part.seen.attended_pairs = 100000;
    for (int layer = 0; layer < layers; ++layer)
      part.routing.push_back(
          {.layer = layer,
           .tokens = 16384,
           .experts = experts,
           .expert_tokens = std::vector<std::int64_t>(static_cast<std::size_t>(experts), 2000),
           .sparsity = 0.7,
           .losses = {{"adaptive-l1", 0.3}},
           .statistics = {{"lambda", 1e-4}}});
  }
  return out;
}

TEST(PartRecord, HasAboutTheBytesThatPlansCount) {
  const std::vector<std::tuple<int, int, int>> sizes = {
      {1, 1, 4}, {1, 24, 64}, {8, 3, 64}, {3, 4, 8}, {16, 0, 0}};
  for (const auto& [parts, layers, experts] : sizes) {
    const auto found = static_cast<double>(to_bytes(record_of(parts, layers, experts)).size());
    EXPECT_NEAR(typical_record_bytes(parts, layers, experts), found, 0.1 * found)
        << parts << " " << layers << " " << experts;
  }
}

}  // namespace
}  // namespace penstock
