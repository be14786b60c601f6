#include "penstock/routers/balancers/logit_shift.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "penstock/base/error.h"

namespace penstock {
namespace {

constexpr double kLeastRatio = 1e-3;  // smallest ratio of active experts to the target
constexpr double kMemory = 0.8;       // decay of the mean square of errors
constexpr double kGainStep = 0.2;     // largest change of ln u, without the drift
constexpr double kGainDrift = 0.1;    // growth of the gain under errors without correlation
constexpr double kLeastGain = 1e-4, kMostGain = 1;
constexpr double kOwedSteps = 3;  // steps in which `owed` is made up for
constexpr double kMostOwed = 1.5;
constexpr double kRevival = 0.1;

/// The state of one unit, a row of `steering`.
struct Steering {
  double gain, last, square, owed;
};

/// Moves the unit's state by one step. Returns by how much the unit's shift falls.
/// @param ratio  active experts / target
double fall(Steering& unit, double ratio) {
  const double error =
      std::clamp(std::log(std::max(ratio, kLeastRatio)) + unit.owed / kOwedSteps, -1.0, 1.0);
  unit.square = kMemory * unit.square + (1 - kMemory) * error * error;
  if (unit.last != 0) {
    const double alike = std::clamp(error * unit.last / std::max(unit.square, 1e-6), -1.0, 1.0);
    const double gain = unit.gain * std::exp(kGainStep * (alike + kGainDrift));
    unit.gain = std::clamp(gain, kLeastGain, kMostGain);
  }
  unit.last = error;
  return unit.gain * error;
}

std::vector<Steering> read(const at::Tensor& rows) {
  const at::Tensor from = rows.to(at::kCPU, at::kDouble).contiguous();
  std::vector<Steering> out;
  for (const double* row = from.data_ptr<double>(); std::ssize(out) < rows.size(0); row += 4)
    out.push_back({.gain = row[0], .last = row[1], .square = row[2], .owed = row[3]});
  return out;
}

void write(const std::vector<Steering>& all, at::Tensor& rows) {
  std::vector<double> values;
  for (const Steering& one : all)
    values.insert(values.end(), {one.gain, one.last, one.square, one.owed});
  rows.copy_(torch::tensor(values, at::kDouble).view(rows.sizes()));
}

std::int64_t units(const RouterShape& shape, Shifted by) {
  if (by == Shifted::model) return 1;
  return by == Shifted::layer ? shape.layers : shape.layers * shape.experts;
}

}  // namespace

LogitShift::LogitShift(const RouterShape& shape, const ShiftConfig& config,
                       torch::nn::Module& owner)
    : config_(config), k_(shape.k) {
  bias_ = owner.register_buffer("bias", at::zeros({shape.layers, shape.experts}, at::kFloat));
  at::Tensor steering = at::zeros({units(shape, config.by), 4}, at::kFloat);
  steering.select(1, 0).fill_(config.rate);
  steering_ = owner.register_buffer("steering", steering);
}

at::Tensor LogitShift::of(std::int64_t layer) const {
  PENSTOCK_ASSERT(layer < bias_.size(0), "layer ", layer, " of ", bias_.size(0));
  return bias_.select(0, layer);
}

double LogitShift::mean() const { return bias_.mean().item<double>(); }

void LogitShift::move(const StepStatistics& step, double target, bool settling) {
  const auto experts = static_cast<double>(bias_.size(1));
  at::Tensor biases = bias_.to(at::kCPU, at::kFloat).clone();
  std::vector<Steering> all = read(steering_);
  const auto moved = [&](std::size_t unit, double active) {
    double& owed = all[unit].owed;
    if (!settling)
      owed = std::clamp(owed + std::clamp(active / k_ - 1, -1.0, 1.0), -kMostOwed, kMostOwed);
    return fall(all[unit], active / target);
  };
  double down = config_.by == Shifted::model ? moved(0, (1 - step.sparsity) * experts) : 0;
  std::size_t unit = 0;
  for (std::size_t layer = 0; layer < step.tokens.size(); ++layer) {
    const auto tokens = static_cast<double>(step.tokens[layer]);
    const std::vector<std::int64_t>& counts = step.expert_tokens[layer];
    if (config_.by == Shifted::layer) unit = layer;
    if (config_.by == Shifted::layer && tokens > 0) down = moved(unit, step.active(layer));
    for (std::size_t e = 0; e < counts.size() && tokens > 0; ++e) {
      const double active = static_cast<double>(counts[e]) / tokens * experts;
      if (config_.by == Shifted::expert) unit = layer * static_cast<std::size_t>(experts) + e;
      if (config_.by == Shifted::expert) down = moved(unit, active);
      float& bias = biases.data_ptr<float>()[layer * static_cast<std::size_t>(experts) + e];
      bias -= static_cast<float>(down);
      if (active < config_.revive * target) bias += static_cast<float>(kRevival * all[unit].gain);
    }
  }
  bias_.copy_(biases);
  write(all, steering_);
}

}  // namespace penstock
