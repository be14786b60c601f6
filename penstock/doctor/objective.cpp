// The doctor's check of the training loss: the terms of the first step's loss, and the norm of each
// term's gradient.
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "penstock/base/joined.h"
#include "penstock/doctor/doctor.h"
#include "penstock/train/step/objective_watch.h"

namespace penstock::doctor {
namespace {

constexpr const char* kCrossEntropy = "cross-entropy";

/// The norm of a scalar's gradient over all trained parameters. Memory holds the gradients of at
/// most two parameters at a time: a parameter's gradient is complete when its hook is called, and
/// then the previous parameter's gradient is freed.
double gradient_norm(const std::vector<at::Tensor>& parameters, const at::Tensor& root) {
  double squares = 0;
  at::Tensor last;
  std::vector<std::pair<at::Tensor, unsigned>> hooks;
  for (const at::Tensor& parameter : parameters) {
    if (!parameter.requires_grad()) continue;
    const auto hook = [&squares, &last, &parameter](const at::Tensor& gradient) {
      if (!gradient.defined()) return;
      squares += gradient.detach().to(at::kDouble).square().sum().item<double>();
      if (last.defined()) last.mutable_grad() = at::Tensor();
      last = parameter;
    };
    hooks.emplace_back(parameter, parameter.register_hook(hook));
  }
  if (root.requires_grad()) root.backward();
  for (const auto& [parameter, hook] : hooks) parameter.remove_hook(hook);
  for (const at::Tensor& parameter : parameters) parameter.mutable_grad() = at::Tensor();
  return std::sqrt(squares);
}

/// The loss terms of a training pass over one window [1, L], by name. Every pass draws the same
/// random numbers.
std::map<std::string, at::Tensor> terms_of(LanguageModel& model, const at::Tensor& window) {
  RoutingContext context{.total_steps = 1, .training = true};
  context.generator = at::detail::createCPUGenerator(1);
  std::map<std::string, at::Tensor> terms;
  const RoutingTap tap = [&](std::int64_t, const RoutingResult& result) {
    for (const auto& [part, loss] : result.loss_terms)
      terms[part] = terms[part].defined() ? terms[part] + loss : loss;
  };
  const std::int64_t scored = window.size(1) - 1;
  const at::Tensor hidden = model.forward({.tokens = window}, context, tap).hidden;
  terms[kCrossEntropy] = model.loss(hidden.slice(0, 0, scored), window[0].slice(0, 1));
  return terms;
}

using Figure = double TermFigures::*;

/// "cross-entropy 1.62 (3 %), z-loss 62.1 (97 %)".
std::string shares(const std::vector<TermFigures>& terms, Figure figure) {
  double sum = 0;
  for (const TermFigures& term : terms) sum += term.*figure;
  return joined(terms, ", ", [&](const TermFigures& term) {
    return fmt::format("{} {:.3g} ({:.0f} %)", term.name, term.*figure,
                       sum > 0 ? 100 * term.*figure / sum : 0);
  });
}

/// Warns if a term's figure is above that of the cross-entropy, which is the first term.
void judge(const std::string& check, const std::string& what, Figure figure, Diagnosis& diagnosis) {
  const std::vector<TermFigures>& terms = diagnosis.objective;
  const auto largest = std::ranges::max_element(terms, {}, figure);
  const std::string finding = what + shares(terms, figure);
  if (largest == terms.begin())
    diagnosis.add(check, CheckState::ok, finding);
  else
    diagnosis.add(check, CheckState::warning,
                  fmt::format("{} outweighs the cross-entropy: {}", largest->name, finding),
                  remedy_by_command(largest->name));
}

}  // namespace

void check_objective(LanguageModel& model, const at::Tensor& windows, Diagnosis& diagnosis) {
  const at::Tensor window = windows.slice(0, 0, 1);  // [1, L]
  if (window.size(1) < 2) return;
  const std::vector<at::Tensor> parameters = model.parameters();
  std::map<std::string, at::Tensor> terms = terms_of(model, window);
  std::vector<TermFigures>& objective = diagnosis.objective;
  objective.push_back({.name = kCrossEntropy});
  for (const auto& [name, loss] : terms)
    if (name != kCrossEntropy) objective.push_back({.name = name});
  for (TermFigures& term : objective) {
    // A backward pass frees its graph, so each term needs a forward pass of its own.
    if (terms.empty()) terms = terms_of(model, window);
    const at::Tensor loss = terms.at(term.name);
    terms.clear();
    term.loss = loss.item<double>();
    term.gradient_norm = gradient_norm(parameters, loss);
  }
  judge("first loss", "", &TermFigures::loss, diagnosis);
  judge("first gradient",
        "norms of the terms' gradients by themselves: ", &TermFigures::gradient_norm, diagnosis);
}

}  // namespace penstock::doctor
