// The update of shared_optimizer.h: the gradients that a rank updates with, their norm over all
// ranks, and the gathering of the updated weights.
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "penstock/ops/ops.h"
#include "penstock/ops/square_sums.h"
#include "penstock/train/ranks/shared_optimizer.h"

namespace penstock {
namespace {

double sum_of(const std::vector<double>& values) {
  double out = 0;
  for (const double value : values) out += value;
  return out;
}

}  // namespace

std::vector<at::Tensor> SharedOptimizer::gradients_to_update() const {
  std::vector<at::Tensor> out;
  if (!sharing_.tree) {
    for (const Updated& each : parameters_) {
      at::Tensor& gradient = each.weight.mutable_grad();
      if (!gradient.defined()) gradient = torch::zeros_like(each.weight);
      out.push_back(gradient);
    }
    return out;
  }
  if (!divides()) out.resize(parameters_.size());
  for (std::size_t u = 0; u < units_.size(); ++u)
    for (std::size_t i = 0; i < progress_[u].sum.size(); ++i) {
      const at::Tensor& sum = progress_[u].sum[i];
      if (!divides()) {
        const std::size_t p = units_[u].parameters[i];
        out[p] = sum.view_as(parameters_[p].weight);
      } else if (group(units_[u]).size() == 1) {
        out.push_back(sum.view(-1));
      } else {
        out.push_back(sum);
      }
    }
  return out;
}

/// The norm with the bits of one process: adds the pieces of all spans in the order of the
/// parameters.
double SharedOptimizer::norm_in_order(const std::vector<at::Tensor>& spans) const {
  const auto pieces = [](std::int64_t elements) {
    return (elements + ops::kSquarePiece - 1) / ops::kSquarePiece;
  };
  const int ranks = sharing_.data.size();
  std::int64_t most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    std::int64_t of_rank = 0;
    for (const ParameterUnit& unit : units_)
      for (const Span& span : unit.spans[static_cast<std::size_t>(rank)])
        of_rank += pieces(span.size());
    most = std::max(most, of_rank);
  }
  std::vector<double> mine = ops::square_sums(spans);
  mine.resize(static_cast<std::size_t>(most));
  const at::Tensor all = sharing_.data.all_gather(at::from_blob(mine.data(), {most}, at::kDouble));
  std::vector<std::vector<double>> by_parameter(parameters_.size());
  for (std::size_t p = 0; p < parameters_.size(); ++p)
    by_parameter[p].resize(static_cast<std::size_t>(pieces(parameters_[p].weight.numel())));
  for (int rank = 0; rank < ranks; ++rank) {
    const double* next = all.data_ptr<double>() + rank * most;
    for (const ParameterUnit& unit : units_)
      for (const Span& span : unit.spans[static_cast<std::size_t>(rank)])
        for (std::int64_t piece = 0; piece < pieces(span.size()); ++piece)
          by_parameter[unit.parameters[span.parameter]]
                      [static_cast<std::size_t>(span.begin / ops::kSquarePiece + piece)] = *next++;
  }
  double out = 0;
  for (const auto& of_parameter : by_parameter)
    for (const double value : of_parameter) out += value;
  return std::sqrt(out);
}

double SharedOptimizer::norm_of(const std::vector<at::Tensor>& gradients) const {
  const int ranks = sharing_.world.size();
  const bool whole_models = ranks == sharing_.data.size() && !sharing_.counted &&
                            (!sharing_.of_experts || ranks == sharing_.replicas.size());
  if (whole_models && !divides()) return ops::global_norm(gradients);
  if (whole_models) return norm_in_order(gradients);
  std::vector<at::Tensor> counted;  // each element of the model is on one rank only
  std::size_t next = 0;
  for (const ParameterUnit& unit : units_)
    for (const Span& span : own_spans(unit)) {
      const std::size_t p = unit.parameters[span.parameter];
      const at::Tensor piece =
          divides() ? gradients[next++] : gradients[p].reshape({-1}).slice(0, span.begin, span.end);
      if (!sharing_.counted || sharing_.counted(parameters_[p].name)) counted.push_back(piece);
    }
  const double mine = sum_of(ops::square_sums(counted));
  const at::Tensor all = sharing_.world.all_gather(at::full({1}, mine, at::kDouble));
  double out = 0;
  for (int rank = 0; rank < ranks; ++rank) out += all[rank].item<double>();
  return std::sqrt(out);
}

std::string SharedOptimizer::non_finite_parameter(const std::vector<at::Tensor>& gradients) const {
  std::vector<std::pair<std::size_t, std::string>> found;
  const auto& updated = optimizer_.updated();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].isfinite().all().item<bool>()) continue;
    const auto same_name = [&](const Updated& each) { return each.name == updated[i].name; };
    const auto place = std::ranges::find_if(parameters_, same_name) - parameters_.begin();
    found.emplace_back(static_cast<std::size_t>(place), updated[i].name);
  }
  std::string first;
  if (!found.empty()) {
    const auto& [place, name] = *std::ranges::min_element(found);
    first = fmt::format("{:08} {}", place, name);
  }
  std::string out;  // the first on any rank; texts have the order of places
  for (const std::string& theirs : sharing_.world.gather(first))
    if (!theirs.empty() && (out.empty() || theirs < out)) out = theirs;
  return out.empty() ? "" : out.substr(out.find(' ') + 1);
}

UpdateOutcome SharedOptimizer::measure(double scale) const {
  const torch::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = gradients_to_update();
  const double norm = norm_of(gradients) * scale;
  if (std::isfinite(norm)) return {.gradient_norm = norm};
  return {.gradient_norm = norm, .failure = non_finite_text(non_finite_parameter(gradients))};
}

UpdateOutcome SharedOptimizer::update(double lr) {
  UpdateOutcome out = measure();
  if (out.failure.empty()) update(out.gradient_norm, lr);
  return out;
}

void SharedOptimizer::update(double norm, double lr, double scale) {
  const torch::NoGradGuard no_grad;
  optimizer_.update(gradients_to_update(), norm, lr, scale);
  progress_.clear();
  if (!divides()) return;
  if (one_copy_) {
    sharing_.data.barrier("updated weights");
    if (sharing_.of_experts) sharing_.replicas.barrier("updated experts");
    return;
  }
  std::size_t next = 0;
  for (const ParameterUnit& unit : units_) {
    UnitTensors mine;
    for (std::size_t i = 0; i < own_spans(unit).size(); ++i)
      mine.push_back(optimizer_.updated()[next++].weight);
    if (!moves(unit)) exchange(unit).gather(unit, mine, whole_weights(unit));
  }
}

}  // namespace penstock
