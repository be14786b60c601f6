#include "penstock/train/step/objective_watch.h"

#include <fmt/format.h>

#include <algorithm>

#include "penstock/routers/coefficients.h"

namespace penstock {

std::string remedy_by_command(const std::string& part) {
  return remedy_for_loss(part) +
         (acts_on_logits(part) ? " (`penstock upcycle --start parent`, or a higher entropy at the "
                                 "start, `penstock upcycle --start-entropy`)"
                               : "");
}

ObjectiveWatch::ObjectiveWatch(WatchedSettings settings) : settings_(std::move(settings)) {
  if (!settings_.remedy) settings_.remedy = remedy_by_command;
}

std::vector<RunWarning> ObjectiveWatch::see(const WatchedStep& step) {
  std::vector<RunWarning> out;
  for (const auto& [part, loss] : step.auxiliary_losses)
    if (loss > step.loss && said_.insert(part).second) out.push_back(auxiliary_warning(part, step));
  if (clipping(step)) out.push_back(clipping_warning(step));
  if (idle(step)) out.push_back(idle_warning(step));
  return out;
}

bool ObjectiveWatch::clipping(const WatchedStep& step) {
  if (settings_.clip == 0 || clipping_said_) return false;
  clipped_.push_back(step.gradient_norm > kClipped * settings_.clip);
  if (clipped_.size() > kWindow) clipped_.pop_front();
  clipping_said_ = std::ranges::count(clipped_, true) >= static_cast<std::ptrdiff_t>(kClippedSteps);
  return clipping_said_;
}

bool ObjectiveWatch::idle(const WatchedStep& step) {
  if (idle_said_) return false;
  idle_steps_ = step.active_experts < kTooFew * settings_.steered_experts ? idle_steps_ + 1 : 0;
  idle_said_ = idle_steps_ >= kWindow;
  return idle_said_;
}

RunWarning ObjectiveWatch::auxiliary_warning(const std::string& part,
                                             const WatchedStep& step) const {
  return {.name = "auxiliary loss",
          .finding = fmt::format("the loss of {} is {:.3g}, more than the cross-entropy of {:.3g}: "
                                 "training follows it first",
                                 part, step.auxiliary_losses.at(part), step.loss),
          .remedy = settings_.remedy(part)};
}

RunWarning ObjectiveWatch::clipping_warning(const WatchedStep& step) const {
  const auto& losses = step.auxiliary_losses;
  const auto largest = std::ranges::max_element(
      losses, [](const auto& a, const auto& b) { return a.second < b.second; });
  // An auxiliary loss below this fraction of the cross-entropy hardly causes a large gradient.
  constexpr double kToBlame = 0.5;
  const bool auxiliary = largest != losses.end() && largest->second > kToBlame * step.loss;
  const std::string usual = fmt::format(
      "if such gradients are meant, {0}clip = {1:.2g}; otherwise a lower {0}lr, or a longer "
      "{0}warmup_steps",
      settings_.keys, step.gradient_norm);
  return {.name = "clipping",
          .finding = fmt::format(
              "in {} of the last {} steps the gradient's norm, now {:.3g}, was above {:g} times "
              "{}clip = {:g}: more than nine tenths of it are clipped away",
              std::ranges::count(clipped_, true), clipped_.size(), step.gradient_norm, kClipped,
              settings_.keys, settings_.clip),
          .remedy = auxiliary ? settings_.remedy(largest->first) : usual};
}

RunWarning ObjectiveWatch::idle_warning(const WatchedStep& step) const {
  return {
      .name = "idle experts",
      .finding = fmt::format("for {} steps a token has had fewer than half of the {:g} active "
                             "experts that the router is steered to, now {:.2g}",
                             idle_steps_, settings_.steered_experts, step.active_experts),
      .remedy = fmt::format(
          "an expert that is off for every token learns nothing: begin again with a lower {}lr{}",
          settings_.keys, settings_.keys.empty() ? "" : ", or a lower model.router.lr_scale")};
}

}  // namespace penstock
