#include "penstock/train/layouts/optimizer_estimate.h"

#include <algorithm>
#include <cmath>

namespace penstock {
namespace {

using rank_traffic::kAddedUp;
using rank_traffic::kBytes;
using rank_traffic::kPacked;
using rank_traffic::kPutInPlace;
using rank_traffic::share_elsewhere;

}  // namespace

void OptimizerEstimate::add(const std::vector<ParameterSize>& sizes, const SharedSteps& steps,
                            double units, bool rest, int stride, const MachineSpeeds& speeds) {
  if (sizes.empty()) return;
  const SharingBytes bytes = sharing_bytes(sizes, steps);
  memory.parameter_bytes += bytes.parameters;
  memory.gradient_bytes += bytes.gradients;
  memory.optimizer_bytes += bytes.optimizer;
  exchange = std::max(exchange, bytes.exchange);
  const auto others = static_cast<double>(steps.ranks - 1), more = rest ? 1.0 : 0.0;
  const double rounds = std::ceil(static_cast<double>(steps.parts) / steps.ranks);
  const double share = share_elsewhere(steps.ranks, stride, speeds);
  carriers += share == 0 ? bytes.files : bytes.packed;
  gradients.add(static_cast<double>(bytes.sent_gradients), share,
                others * (units + more) * (steps.zero >= 2 ? rounds : 1), kPacked + kAddedUp);
  // A rank packs its own bytes once for all other ranks, and also copies them into place.
  const auto sent = static_cast<double>(bytes.sent_sums + bytes.sent_weights);
  const double gathers = steps.zero == 3 ? 2 * rounds * steps.passes : 1;
  sums.add(sent, share, sent > 0 ? others * (units * gathers + more) : 0,
           kPutInPlace + (kPacked + kPutInPlace) / std::max(1.0, others));
  double all = 0;
  for (const ParameterSize& size : sizes) all += static_cast<double>(size.elements);
  parameters += all;
  updated += static_cast<double>(bytes.optimizer) / static_cast<double>(2 * steps.moment_bytes);
  to_make_whole += bytes.to_make_whole;
  if (steps.ranks == 1) return;
  const auto of_no_layer = static_cast<double>(bytes.of_no_layer) / kBytes;
  exchanged += all;
  last += of_no_layer + (all - of_no_layer) / units;
}

void OptimizerEstimate::add_shares(double numbers, bool alone) {
  shares += numbers;
  share_sums = std::max(1.0, share_sums) + (alone ? 1 : 0);
  // Buffers of the bytes sent, of the bytes received and of the sums.
  exchange = std::max(exchange, static_cast<std::int64_t>(3 * numbers * kBytes));
}

void OptimizerEstimate::add_apart(const std::vector<ParameterSize>& sizes, const SharedSteps& steps,
                                  double units, double local_steps, const MachineSpeeds& speeds) {
  const auto ranks = static_cast<std::size_t>(steps.ranks);
  const SharedSteps alone{.parts = (steps.parts + ranks - 1) / ranks,
                          .passes = steps.passes,
                          .moment_bytes = steps.moment_bytes};
  add(sizes, alone, units, true, 1, speeds);
  const SharingBytes outer =
      sharing_bytes(sizes, {.parts = ranks, .ranks = steps.ranks, .zero = 1});
  memory.optimizer_bytes += outer.optimizer;
  exchange = outer.exchange;
  const double share = share_elsewhere(steps.ranks, 1, speeds);
  carriers = share == 0 ? outer.files : outer.packed;
  const double messages = (steps.ranks - 1) * (units + 1) / local_steps;
  gradients.add(static_cast<double>(outer.sent_gradients) / local_steps, share, messages,
                kPacked + kAddedUp);
  sums.add(static_cast<double>(outer.sent_weights) / local_steps, share, messages,
           kPutInPlace + (kPacked + kPutInPlace) / std::max(1.0, steps.ranks - 1.0));
  sums.kind = "weights";
}

}  // namespace penstock
