#include "penstock/train/step/objective.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <functional>

#include "penstock/base/error.h"
#include "penstock/routers/registry.h"

namespace penstock {
namespace {

/// A chunk of the rows of a mean, and its share of the mean.
class ChunkOf {
 public:
  /// @param share  the chunk's share of the mean;  @param scale  factor of the gradient
  ChunkOf(IndexRange rows, double share, double scale, double& value)
      : rows_(rows), share_(share), scale_(scale), value_(value) {}

  /// The chunk's rows as a leaf of a new graph.
  at::Tensor of(const at::Tensor& hidden) const {
    return hidden.detach().narrow(0, rows_.first, rows_.size()).clone().requires_grad_();
  }
  /// Makes the backward pass and adds share · mean to the value.
  /// @param mean  over the chunk's rows
  void backward(const at::Tensor& mean) const {
    const at::Tensor value = share_ * mean;
    (scale_ * value).backward();
    value_ += value.item<double>();
  }
  void put(const at::Tensor& from, const at::Tensor& all) const {
    all.narrow(0, rows_.first, rows_.size()).copy_(from);
  }

 private:
  IndexRange rows_;
  double share_, scale_;
  double& value_;
};

/// Calls work(chunk) for each chunk of the rows of `like`, so that it holds only one chunk's
/// logits. Returns the mean over the rows of all ranks.
double by_chunks(const LanguageModel& model, const at::Tensor& like, double scale,
                 std::int64_t logits_bytes, const std::function<void(const ChunkOf&)>& work) {
  const RankRows& of_all = model.place().rows;
  const std::int64_t rows = like.size(0);
  const std::int64_t row_bytes = model.config().vocab * like.element_size();
  const std::int64_t chunk = std::clamp<std::int64_t>(logits_bytes / row_bytes, 1, rows);
  double value = 0;
  for (std::int64_t begin = 0; begin < rows; begin += chunk) {
    const std::int64_t count = std::min(chunk, rows - begin);
    const double share = static_cast<double>(count) / static_cast<double>(rows);
    work(ChunkOf({begin, begin + count}, share, scale * of_all.share(), value));
  }
  return of_all.mean(torch::full({}, value, at::kDouble)).item<double>();
}

at::Tensor without_gradient(const LanguageModel& model, const at::Tensor& hidden) {
  const torch::NoGradGuard no_grad;
  return model.logits(hidden);
}

}  // namespace

Objective training_objective(const RouterTraits& traits) {
  const auto passes = static_cast<int>(traits.forward_passes);
  PENSTOCK_ASSERT(passes == 1 || passes == 2);
  return {.passes = passes,
          .weight = passes == 2 ? traits.disagreement : 0,
          .distillation = passes == 1 ? traits.distillation : 0};
}

std::string part_that_pools(const ModelConfig& config) {
  if (config.moe_layers() == 0) return "";
  const ResolvedRouter router = resolve(config.router);
  for (const auto& name : router.balancers)
    if (balancer_registry().at(name).traits_under(router.options.at(name)).pools_step) return name;
  return "";
}

at::Tensor disagreement(const at::Tensor& first, const at::Tensor& second) {
  const at::Tensor log_p = torch::log_softmax(first, -1), log_q = torch::log_softmax(second, -1);
  return 0.5 * ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(-1).mean();
}

at::Tensor divergence(const at::Tensor& teacher, const at::Tensor& student) {
  const at::Tensor log_p = torch::log_softmax(teacher.detach(), -1);
  return (log_p.exp() * (log_p - torch::log_softmax(student, -1))).sum(-1).mean();
}

DisagreementPass disagreement_backward(const LanguageModel& model, const at::Tensor& first,
                                       const at::Tensor& second, double scale,
                                       std::int64_t logits_bytes) {
  DisagreementPass out{.first_gradient = torch::empty_like(first),
                       .second_gradient = torch::empty_like(second)};
  out.value = by_chunks(model, first, scale, logits_bytes, [&](const ChunkOf& chunk) {
    const at::Tensor p = chunk.of(first), q = chunk.of(second);  // [C, d]
    chunk.backward(disagreement(model.logits(p), model.logits(q)));
    chunk.put(p.grad(), out.first_gradient);
    chunk.put(q.grad(), out.second_gradient);
  });
  return out;
}

DivergencePass divergence_backward(const LanguageModel& model, const at::Tensor& teacher,
                                   const at::Tensor& student, double scale,
                                   std::int64_t logits_bytes) {
  DivergencePass out{.gradient = torch::empty_like(student)};
  out.value = by_chunks(model, student, scale, logits_bytes, [&](const ChunkOf& chunk) {
    const at::Tensor q = chunk.of(student);  // [C, d]
    chunk.backward(divergence(without_gradient(model, chunk.of(teacher)), model.logits(q)));
    chunk.put(q.grad(), out.gradient);
  });
  return out;
}

}  // namespace penstock
