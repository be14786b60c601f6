#include "penstock/data/prepare/assign_splits.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "penstock/base/error.h"
#include "penstock/base/random.h"

namespace penstock {
namespace {

constexpr std::uint64_t kSplitStream = 0x73706c6974;  // "split"

std::vector<Piece> cut(std::span<const std::int64_t> lengths, const SplitPlan& plan) {
  const auto total =
      static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}));
  // Bounds are rounded down, as usual for "the first 90 %". The small addend makes 0.9 + 0.1 reach
  // 1.
  std::array<std::int64_t, kSplits> bounds{};
  double share = 0;
  for (std::size_t s = 0; s < kSplits; ++s) {
    share += plan.shares[s];
    bounds[s] = static_cast<std::int64_t>(std::floor(total * std::min(share, 1.0) + 1e-6));
  }
  std::vector<Piece> pieces;
  std::int64_t position = 0;
  std::size_t split = 0;
  for (std::size_t d = 0; d < lengths.size(); ++d) {
    const std::int64_t document = position;
    while (position < document + lengths[d]) {
      while (split + 1 < kSplits && position >= bounds[split]) ++split;
      const std::int64_t document_end = document + lengths[d];
      const std::int64_t end =
          split + 1 < kSplits ? std::min(bounds[split], document_end) : document_end;
      pieces.push_back({d, position - document, end - document, static_cast<Split>(split)});
      position = end;
    }
  }
  return pieces;
}

std::vector<Piece> choose(std::span<const std::int64_t> lengths, const SplitPlan& plan,
                          std::uint64_t seed) {
  const auto total =
      static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}));
  std::vector<std::size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  shuffle(order, seed, kSplitStream);
  std::array<double, kSplits> filled{};
  std::vector<Piece> pieces(lengths.size());
  for (const std::size_t d : order) {
    Split to = Split::kTrain;
    for (const Split split : {Split::kTest, Split::kValidation}) {
      const auto s = static_cast<std::size_t>(split);
      // A document goes to a split if the split's share then is nearer to its goal.
      if (filled[s] + static_cast<double>(lengths[d]) / 2 < plan.shares[s] * total) to = split;
    }
    filled[static_cast<std::size_t>(to)] += static_cast<double>(lengths[d]);
    pieces[d] = {d, 0, lengths[d], to};
  }
  return pieces;
}

}  // namespace

SplitPlan parse_split_plan(const std::string& text) {
  SplitPlan plan{.exact = text.starts_with("bytes:"), .shares = {}};
  plan.contiguous = plan.exact || text.starts_with("contiguous:");
  const std::string shares = plan.contiguous ? text.substr(text.find(':') + 1) : text;
  const char* at = shares.c_str();
  double sum = 0;
  bool good = true;
  for (std::size_t s = 0; s < kSplits && good; ++s) {
    char* end = nullptr;
    plan.shares[s] = std::strtod(at, &end);
    good = end != at && plan.shares[s] >= 0 && plan.shares[s] <= 1;
    sum += plan.shares[s];
    at = end;
    if (*at == '\0') break;
    good = good && *at++ == ',' && s + 1 < kSplits;
  }
  PENSTOCK_CHECK(good && *at == '\0' && std::abs(sum - 1) < 1e-6, "options.split '", text,
                 "': give the shares of train, validation and test, which sum to 1, as in "
                 "0.9,0.05,0.05, contiguous:0.9,0.1,0 or bytes:0.9,0.05,0.05");
  return plan;
}

std::vector<Piece> assign_splits(std::span<const std::int64_t> lengths, const SplitPlan& plan,
                                 std::uint64_t seed, bool& fell_back) {
  fell_back = false;
  if (plan.contiguous) return cut(lengths, plan);
  auto pieces = choose(lengths, plan, seed);
  for (std::size_t s = 0; s < kSplits; ++s) {
    const auto in_split = [&](const Piece& p) { return p.split == static_cast<Split>(s); };
    if (plan.shares[s] > 0 && std::none_of(pieces.begin(), pieces.end(), in_split))
      fell_back = true;
  }
  return fell_back ? cut(lengths, plan) : pieces;
}

}  // namespace penstock
