// Estimates of the memory, traffic and waiting of one process of a layout, from the recipe alone,
// to plan for machines that are not at hand. Nothing is measured here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "penstock/dist/mesh.h"
#include "penstock/models/counts/model_tensors.h"
#include "penstock/models/counts/training_memory.h"
#include "penstock/train/layouts/machine_speeds.h"
#include "penstock/train/recipe.h"
#include "penstock/train/recompute_choice.h"

namespace penstock {

struct OptimizerEstimate;

/// Of the rank that has most of each.
struct RankEstimate {
  int ranks = 1;
  TrainingMemory memory;
  RecomputeChoice recomputation;
  std::int64_t exchange_bytes = 0;  ///< buffers of what is sent and received at a time
  /// Besides, what it gets of others to write its even share of a checkpoint, at the most; where
  /// ranks train apart rank 0 alone, which writes all.
  std::int64_t checkpoint_bytes = 0;
  /// Of rank 0 besides, to evaluate: what it gathers, and the whole model that it makes of it.
  std::int64_t evaluation_bytes = 0;
  /// Sent in a step, by what it is: "gradients", "summed_gradients", "weights", "tensor", "stages",
  /// "tokens". Of ranks that train apart the mean of a step, with what an outer step sends.
  std::vector<std::pair<std::string, std::int64_t>> bytes_per_step;
  double useful_seconds = 0;    ///< its even share of the step's FLOPs
  double compute_seconds = 0;   ///< of its share of the step, with what it is idle in a pipeline
  double update_seconds = 0;    ///< of adding up its own gradients and of the optimizer
  double exchange_seconds = 0;  ///< with nothing hidden behind the computation
  double step_seconds = 0;

  std::int64_t memory_bytes() const { return memory.total() + exchange_bytes; }
  /// Share of the step in which every process does useful FLOPs.
  double efficiency() const { return useful_seconds / step_seconds; }
  /// Share of the step that the exchange adds.
  double communication() const {
    return std::max(0.0, 1 - (compute_seconds + update_seconds) / step_seconds);
  }
};

/// Estimates layouts of one recipe. What they have in common is counted once.
class RankEstimator {
 public:
  /// REQUIRES: the recipe's vocabulary is known.
  explicit RankEstimator(const Recipe& recipe);

  /// Of m micro-batches in a step each data rank has P = ceil(m / data); a stage has l of L layers,
  /// the last one also the head, which takes a share h of the FLOPs F of a step, and where the
  /// ranks of `tensor` divide the rows h / tensor:
  ///   - part = F / m · max over stages of (l / L · (1 − h) / tensor + h, of the last one) / flops
  ///       + (rank_load − 1) · 6 · T · k · l · the multiply-adds of an expert / tensor / flops
  ///   - compute = part · (P + (pipeline − 1) / chunks)
  ///   - update = ((16 + 4 · moment) · parameters updated + 12 · (P − 1) · parameters)
  ///       / memory_bandwidth, with `moment` the bytes of one
  ///   - exchange = Σ bytes elsewhere / bandwidth + bytes here / node_bandwidth
  ///       + bytes packed, added up and put in place / memory_bandwidth + messages · latency
  ///   - step = compute + update + exchange − hidden · (1 − processor)
  ///
  /// With parallel.overlap and one chunk the exchange of gradients, and with zero 0 of their sums,
  /// goes on beside the last micro-batch's backward pass, two thirds of its `part`; with zero 2 and
  /// 3 beside all but the first forward pass, and with zero 3 so does the weights'. It begins when
  /// the pass has left the last layer, and what the pass leaves last is not hidden. `processor` is
  /// the share of the hidden time in which it computes, by exchange_cost and memory_bandwidth.
  /// Tokens that choose k of E experts on e ranks at random go to (e − 1)·(1 − (1 − 1/e)^k) others,
  /// rank_load times as many to the busiest rank,
  /// and with parallel.overlap go on beside a shared expert: half of that beside two thirds of its
  /// products, half beside the others. Of a group whose neighbours lie s ranks apart node_ranks / s
  /// are on one machine, and bytes go evenly to all of its ranks. With parallel.local_steps = H a
  /// step has a share of 1 / H of an outer step's exchange, and nothing goes on beside that.
  /// @param parallel  its zero, pipeline_chunks, overlap and local_steps.  REQUIRES: layout_of()
  /// takes it.
  RankEstimate estimate(const ParallelConfig& parallel, const dist::Layout& layout,
                        const MachineSpeeds& speeds = {}) const;

 private:
  struct Shape;

  Shape shape_of(const ParallelConfig& parallel, const dist::Layout& layout) const;
  OptimizerEstimate optimizer_of(const ParallelConfig& parallel, const dist::Layout& layout,
                                 int stage, const Shape& shape, const MachineSpeeds& speeds) const;
  OptimizerEstimate largest_optimizer(const ParallelConfig& parallel, const dist::Layout& layout,
                                      const Shape& shape, const MachineSpeeds& speeds) const;
  /// @param others  bytes of weights, gradients and moments
  RecomputeChoice recomputation(const dist::Layout& layout, const Shape& shape,
                                double others) const;
  std::int64_t checkpoint_bytes(const ParallelConfig& parallel, const dist::Layout& layout,
                                const Shape& shape, const OptimizerEstimate& first) const;
  std::int64_t evaluation_bytes(const ParallelConfig& parallel, const dist::Layout& layout,
                                const OptimizerEstimate& first) const;
  double numbers_of_stage(const dist::Layout& layout, int stage, int chunks) const;
  double hidden_seconds(const ParallelConfig& parallel, const Shape& shape,
                        const OptimizerEstimate& optimizer, double part,
                        const MachineSpeeds& speeds) const;
  double expert_flops(const dist::Layout& layout, const Shape& shape) const;
  double part_seconds(const dist::Layout& layout, int chunks, double flops) const;

  Recipe recipe_;
  ModelConfig config_;  // resolved
  std::vector<ModelTensor> tensors_;
  std::set<std::string> frozen_, of_experts_;
  double flops_ = 0, head_share_ = 0;  // of a step; of these in the head
};

/// Of one layout, the recipe's [parallel] otherwise.
RankEstimate estimate_rank(const Recipe& recipe, const dist::Layout& layout,
                           const MachineSpeeds& speeds = {});

}  // namespace penstock
