#include "penstock/study/runs/equal_compute.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "penstock/base/joined.h"
#include "penstock/study/table.h"

namespace penstock::study {
namespace {

/// The smallest and the largest mean FLOPs; {0, 0} if no variant states its FLOPs.
std::pair<double, double> range(std::span<const VariantSummary> variants) {
  std::vector<double> means;
  for (const auto& variant : variants)
    if (variant.total_flops.count > 0) means.push_back(variant.total_flops.mean);
  if (means.empty()) return {0, 0};
  const auto [least, most] = std::ranges::minmax(means);
  return {least, most};
}

}  // namespace

double compute_ratio(std::span<const VariantSummary> variants) {
  const auto [least, most] = range(variants);
  return least > 0 ? most / least : 1;
}

std::string ratio_text(double ratio) {
  const bool close = ratio > 0.9 && ratio < 1.1;
  return fmt::format("{:.{}f}x", ratio, ratio < 1 || close ? 2 : 1);
}

std::string compute_difference(std::span<const VariantSummary> variants) {
  const double ratio = compute_ratio(variants);
  if (ratio <= kEqualCompute) return "";
  const auto [least, most] = range(variants);
  return fmt::format("compute differs by {} ({} to {} training FLOPs)", ratio_text(ratio),
                     with_prefix(least, ""), with_prefix(most, ""));
}

std::string uncounted_compute(std::span<const VariantSummary> variants,
                              const Comparison& comparison) {
  std::map<std::string, int> followers;
  for (const auto& variant : variants)
    if (const auto it = comparison.begins_with.find(variant.name);
        it != comparison.begins_with.end())
      ++followers[it->second];
  return joined(followers, "; ", [&](const auto& follower) {
    const auto& [name, count] = follower;
    const auto parent = std::ranges::find(variants, name, &VariantSummary::name);
    const bool known = parent != variants.end() && parent->total_flops.count > 0;
    return fmt::format("{} with {}, whose training {}is not counted with {}",
                       count == 1 ? "1 variant begins" : fmt::format("{} variants begin", count),
                       parent == variants.end() ? name : parent->label,
                       known ? "(" + with_prefix(parent->total_flops.mean, "") + " FLOPs) " : "",
                       count == 1 ? "its own" : "theirs");
  });
}

}  // namespace penstock::study
