#include "penstock/train/accumulate.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <utility>

#include "penstock/base/nonfinite.h"
#include "penstock/base/random.h"
#include "penstock/ops/profile_clock.h"
#include "penstock/train/gradient_tree.h"
#include "penstock/train/part_record.h"
#include "penstock/train/routing_sums.h"

namespace penstock {
namespace {

at::Generator generator_of(std::uint64_t draw_seed, std::size_t part) {
  return at::detail::createCPUGenerator(mix64(draw_seed + part));
}

/// Runs the part's passes again and names the first layer whose output is not finite.
std::string blame(StepWork& work, PartInput part, std::uint64_t draw_seed) {
  torch::NoGradGuard no_grad;
  part.context.generator = generator_of(draw_seed, part.index);  // draws the same numbers again
  std::string culprit;
  work.replay(part, [&](std::int64_t layer, const at::Tensor& hidden) {
    if (culprit.empty() && !hidden.isfinite().all().item<bool>())
      culprit = "layer " + std::to_string(layer);
  });
  return culprit.empty() ? "the output head or an auxiliary loss" : culprit;
}

void backward(const PartOutcome& part, const PartShare& share) {
  std::vector<at::Tensor> roots = {part.objective};
  std::vector<at::Tensor> gradients = {at::full_like(part.objective.detach(), share.of(1))};
  roots.insert(roots.end(), part.roots.begin(), part.roots.end());
  gradients.insert(gradients.end(), part.gradients.begin(), part.gradients.end());
  torch::autograd::backward(roots, gradients);
}

/// The parts of this rank, one after the other.
class Accumulation {
 public:
  Accumulation(StepWork& work, const RoutingContext& context, std::uint64_t draw_seed,
               std::vector<ModelMemory>& memory, const StepWatch& watch, bool replays)
      : work_(work),
        context_(context),
        draw_seed_(draw_seed),
        memory_(memory),
        watch_(watch),
        replays_(replays) {}

  /// Up to a part that is not finite. @param after_part  may be null
  void run(PartRange parts, const std::function<void()>& after_part) {
    for (std::size_t p = parts.first; p < parts.last && record_.non_finite.empty(); ++p) {
      run_part(p);
      if (after_part && record_.non_finite.empty()) after_part();
    }
  }
  /// Of all parts; reads what the layers' passes left on the device.
  RankRecord record() {
    for (std::size_t p = 0; p < passes_.size(); ++p)
      for (RoutingPass& pass : passes_[p])
        record_.parts[p].routing.push_back(read(std::move(pass)));
    passes_.clear();
    return std::move(record_);
  }
  double forward_seconds() const { return forward_seconds_; }
  double backward_seconds() const { return backward_seconds_; }

 private:
  void run_part(std::size_t p) {
    const double start = ops::profile_seconds();
    const std::int64_t layers = work_.model().config().layers;
    PartInput part{.index = p,
                   .share = work_.share(p),
                   .context = context_,
                   .memory = memory_[p],
                   .watch = watch_of_part(watch_, p, work_.parts(), layers)};
    PartRecord& record = record_.parts.emplace_back();
    passes_.emplace_back();
    record.weight = part.share.weight;
    part.context.generator = generator_of(draw_seed_, p);
    part.tap = [&](std::int64_t layer, const RoutingResult& result) {
      passes_.back().push_back(routing_pass(layer, result));
    };
    PartOutcome out = work_.forward(part, record.seen);
    const double forward_done = ops::profile_seconds();
    forward_seconds_ += forward_done - start;
    const double total = out.objective.item<double>() + out.besides;
    record.seen.loss = part.share.of(out.loss);
    record.seen.total_loss = part.share.of(total);
    if (!std::isfinite(total)) {
      record_.non_finite = fmt::format(
          "the loss is {}{}", nonfinite_text(total),
          replays_ ? ", first seen in " + blame(work_, part, draw_seed_) : std::string());
      return;
    }
    memory_[p] = std::move(out.memory);
    if (part.watch) part.watch(PassDirection::backward, layers);
    backward(out, part.share);
    backward_seconds_ += ops::profile_seconds() - forward_done;
  }

  StepWork& work_;
  const RoutingContext& context_;
  std::uint64_t draw_seed_;
  std::vector<ModelMemory>& memory_;
  const StepWatch& watch_;
  bool replays_;
  RankRecord record_;
  std::vector<std::vector<RoutingPass>> passes_;  // by part
  double forward_seconds_ = 0, backward_seconds_ = 0;
};

void add_part(const StepReport& part, StepReport& out) {
  out.loss += part.loss;
  out.total_loss += part.total_loss;
  if (part.consistency) out.consistency = out.consistency.value_or(0) + *part.consistency;
  out.tokens += part.tokens;
  out.bytes += part.bytes;
  out.attended_pairs += part.attended_pairs;
  out.remembered.positions += part.remembered.positions;
  out.remembered.distances += part.remembered.distances;
  out.texts += part.texts;
  out.accuracy += part.accuracy;
}

/// One report of all parts, added up in their order whoever computed them.
StepReport report_of(const std::vector<RankRecord>& ranks, StepWork& work) {
  StepReport out;
  RoutingSums sums;
  double weights = 0;
  for (const RankRecord& rank : ranks) {
    for (const PartRecord& part : rank.parts) {
      add_part(part.seen, out);
      for (const RoutingRecord& layer : part.routing) sums.add(layer, part.weight);
      weights += part.weight;
    }
    out.non_finite = rank.non_finite;
    if (!out.non_finite.empty()) return out;
  }
  work.finish(sums.assignments(), out);
  sums.finish(work.passes() * weights, out);
  return out;
}

}  // namespace

StepReport accumulate(StepWork& work, const RoutingContext& context, std::uint64_t draw_seed,
                      std::vector<ModelMemory>& memory, const StepWatch& watch,
                      const PartSharing& sharing) {
  const dist::ProcessGroup& group = sharing.group;
  memory.resize(work.parts());
  Accumulation mine(work, context, draw_seed, memory, watch, sharing.replays);
  std::exception_ptr thrown;
  RankRecord failure;
  try {
    mine.run(parts_of_rank(work.parts(), group.rank(), group.size()), sharing.after_part);
  } catch (...) {
    thrown = std::current_exception();
    failure = record_of_failure(thrown);
  }
  if (sharing.after_parts) sharing.after_parts();
  const auto records = exchange_records(group, thrown ? failure : mine.record(), thrown);
  StepReport out = report_of(records, work);
  out.forward_seconds = mine.forward_seconds();
  out.backward_seconds = mine.backward_seconds();
  return out;
}

}  // namespace penstock
