#include "penstock/train/layouts/layout_search.h"

#include <algorithm>
#include <functional>
#include <string>
#include <tuple>

#include "penstock/base/error.h"
#include "penstock/train/layouts/parallel_settings.h"

namespace penstock {
namespace {

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> out;
  for (std::int64_t d = 1; d <= number; ++d)
    if (number % d == 0) out.push_back(d);
  return out;
}

/// Calls visit() for every [parallel] with `ranks` ranks, plain data parallelism first.
void for_layouts(const Recipe& recipe, int ranks,
                 const std::function<void(const ParallelConfig&)>& visit) {
  ParallelConfig parallel = recipe.parallel;
  for (const std::int64_t tensor : divisors(ranks))
    for (const std::int64_t pipeline : divisors(ranks / tensor)) {
      parallel.tensor = tensor;
      parallel.pipeline = pipeline;
      parallel.data = ranks / tensor / pipeline;
      const std::int64_t most_chunks =
          pipeline == 1 ? 1 : std::max<std::int64_t>(1, recipe.model.layers / pipeline);
      const std::int64_t sharing = parallel.data * (parallel.whole_experts ? tensor : 1);
      for (const std::int64_t expert : divisors(sharing))
        for (std::int64_t chunks = 1; chunks <= most_chunks; ++chunks)
          for (std::int64_t zero = 0; zero <= (parallel.data > 1 ? 3 : 0); ++zero)
            for (const bool sequence : {false, true}) {
              if (sequence && tensor == 1) continue;
              parallel.expert = expert;
              parallel.pipeline_chunks = chunks;
              parallel.zero = zero;
              parallel.sequence = sequence;
              visit(parallel);
            }
    }
}

/// Sort key: time, then memory, then the size of each axis.
auto order_of(const PlannedLayout& planned) {
  const ParallelConfig& p = planned.parallel;
  return std::tuple(planned.estimate.step_seconds, planned.estimate.memory_bytes(), p.tensor,
                    p.pipeline, p.expert, p.pipeline_chunks, p.zero, p.sequence);
}

}  // namespace

LayoutPlan search_layouts(const Recipe& recipe, int ranks, double memory,
                          const MachineSpeeds& speeds, std::size_t kept) {
  PENSTOCK_CHECK(ranks >= 1, "a layout of ", ranks, " ranks; it takes at least 1");
  const RankEstimator estimator(recipe);
  LayoutPlan out;
  std::string refusal;
  Recipe asked = recipe;
  for_layouts(recipe, ranks, [&](const ParallelConfig& parallel) {
    asked.parallel = parallel;
    dist::Layout layout;
    try {
      layout = layout_of(asked, ranks);
    } catch (const Error& error) {
      if (refusal.empty()) refusal = error.what();
      return;
    }
    PlannedLayout planned{.parallel = parallel,
                          .estimate = estimator.estimate(parallel, layout, speeds)};
    ++out.taken;
    const std::int64_t bytes = planned.estimate.memory_bytes();
    if (!out.least || bytes < out.least->estimate.memory_bytes()) out.least = planned;
    if (memory > 0 && static_cast<double>(bytes) > memory) return;
    ++out.fitting;
    const auto place = std::ranges::upper_bound(out.fastest, order_of(planned), std::less<>(),
                                                [](const auto& p) { return order_of(p); });
    out.fastest.insert(place, std::move(planned));
    if (out.fastest.size() > kept) out.fastest.pop_back();
  });
  PENSTOCK_CHECK(out.taken > 0, "the recipe takes no layout of ", ranks, " ranks: ", refusal);
  return out;
}

}  // namespace penstock
