// Estimates the memory, traffic and waiting of one process of a layout from the recipe only, for
// planning without the machines. Nothing is measured here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "penstock/dist/mesh.h"
#include "penstock/models/counts/training_memory.h"
#include "penstock/train/layouts/machine_speeds.h"
#include "penstock/train/recipe.h"
#include "penstock/train/recompute_choice.h"

namespace penstock {

struct OptimizerEstimate;
namespace rank_traffic {
struct Sent;
}

/// Each value is the largest over the ranks.
struct RankEstimate {
  int ranks = 1;
  TrainingMemory memory;
  RecomputeChoice recomputation;
  std::int64_t exchange_bytes = 0;  ///< buffers of data sent and received at a time
  /// Upper bound of the additional bytes that a rank receives to write its even share of a
  /// checkpoint. If ranks train apart, rank 0 writes the whole checkpoint, and these are the bytes
  /// that it receives.
  std::int64_t checkpoint_bytes = 0;
  /// Additional bytes of rank 0 in an evaluation: gathered tensors, and the whole model made of
  /// them.
  std::int64_t evaluation_bytes = 0;
  /// Bytes sent in a step, by kind: "gradients", "summed_gradients", "weights", "tensor", "stages",
  /// "tokens", "records". If ranks train apart: the mean over steps, including the outer step's
  /// bytes.
  std::vector<std::pair<std::string, std::int64_t>> bytes_per_step;
  double useful_seconds = 0;  ///< time of an even share of the step's FLOPs
  /// time of this rank's share of the step, with its idle time in a pipeline
  double compute_seconds = 0;
  double update_seconds = 0;    ///< time of adding up its own gradients and of the optimizer
  double exchange_seconds = 0;  ///< time of exchanges, as if none overlapped the computation
  double record_seconds = 0;    ///< the part of exchange_seconds for "records"
  double step_seconds = 0;

  std::int64_t memory_bytes() const { return memory.total() + exchange_bytes; }
  /// Share of the step in which every process does useful FLOPs.
  double efficiency() const { return useful_seconds / step_seconds; }
  /// Share of the step's time that the exchange adds.
  double communication() const {
    return std::max(0.0, 1 - (compute_seconds + update_seconds) / step_seconds);
  }
};

/// Estimates layouts of one recipe. Counts that all layouts share are computed once.
class RankEstimator {
 public:
  /// REQUIRES: the recipe's vocabulary is known.
  explicit RankEstimator(const Recipe& recipe);

  /// A step has F FLOPs and m micro-batches. Each data rank has P = ceil(m / data) micro-batches. A
  /// stage has l of L layers. The last stage also has the head. The head's share of F is h; if the
  /// ranks of `tensor` divide the rows, it is h / tensor:
  ///   - part = F / m · max over stages of (l / L · (1 − h) / tensor + h, of the last one) / flops
  ///       + (rank_load − 1) · 6 · T · k · l · the multiply-adds of an expert / tensor / flops
  ///   - compute = part · (P + (pipeline − 1) / chunks)
  ///   - update = ((16 + 4 · moment) · parameters updated + 12 · (P − 1) · parameters)
  ///       / memory_bandwidth; `moment` is the bytes of a moment's element
  ///   - exchange = Σ bytes to other machines / bandwidth + bytes on this machine / node_bandwidth
  ///       + bytes packed, added up and put in place / memory_bandwidth + messages · latency
  ///   - step = compute + update + exchange − hidden · (1 − processor)
  ///
  /// `hidden` is the time of exchanges that overlap the computation. With parallel.overlap and one
  /// chunk, the exchange of gradients overlaps the last micro-batch's backward pass, which takes
  /// two thirds of `part`; with zero 0 so does the exchange of their sums. With zero 2 and 3 the
  /// exchange of gradients overlaps all passes except the first forward pass; with zero 3 so does
  /// the exchange of weights. The exchange begins when the pass has left the last layer. The
  /// exchange of the gradients that are complete last is not hidden. `processor` is the share of
  /// the hidden time in which the exchange uses the core, from exchange_cost and memory_bandwidth.
  /// Tokens choose k of E experts on e ranks at random. So a token goes to
  /// (e − 1)·(1 − (1 − 1/e)^k) other ranks; the busiest rank gets rank_load times as many tokens.
  /// With parallel.overlap one half of this exchange overlaps two thirds of a shared expert's
  /// GEMMs, and the other half overlaps the last third. In a group whose neighbours are s ranks
  /// apart, node_ranks / s ranks are on one machine. A rank sends the same number of bytes to every
  /// rank of the group. With parallel.local_steps = H a step has 1 / H of an outer step's exchange,
  /// and that exchange overlaps nothing.
  ///
  /// All N ranks exchange records in each step, and nothing overlaps this exchange. A rank sends
  /// each other rank its record (typical_record_bytes(), and a quarter more) and numbers of 8 bytes
  /// for the norm: one number; with zero > 0 and whole models one for each ops::kSquarePiece
  /// parameters that it updates; none if each rank has all gradients. Rank 0's order takes ⌈log2 N⌉
  /// messages. With one copy of the weights, the ranks that divide them have one more barrier.
  /// @param parallel  only zero, pipeline_chunks, overlap and local_steps are read.  REQUIRES:
  /// layout_of() accepts it.
  RankEstimate estimate(const ParallelConfig& parallel, const dist::Layout& layout,
                        const MachineSpeeds& speeds = {}) const;

 private:
  struct Shape;

  Shape shape_of(const ParallelConfig& parallel, const dist::Layout& layout) const;
  OptimizerEstimate optimizer_of(const ParallelConfig& parallel, const dist::Layout& layout,
                                 int stage, const Shape& shape, const MachineSpeeds& speeds) const;
  OptimizerEstimate largest_optimizer(const ParallelConfig& parallel, const dist::Layout& layout,
                                      const Shape& shape, const MachineSpeeds& speeds) const;
  /// @param others  bytes of weights, gradients and moments together
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
  rank_traffic::Sent records(const ParallelConfig& parallel, const dist::Layout& layout,
                             const Shape& shape, const OptimizerEstimate& optimizer,
                             const MachineSpeeds& speeds) const;
  double part_seconds(const dist::Layout& layout, int chunks, double flops) const;

  Recipe recipe_;
  ModelConfig config_;  // resolved
  std::vector<ModelTensor> tensors_;
  std::set<std::string> frozen_, of_experts_;
  double flops_ = 0, head_share_ = 0;  // FLOPs of a step; the head's share of them
};

/// The estimate of one layout with the recipe's other [parallel] settings.
RankEstimate estimate_rank(const Recipe& recipe, const dist::Layout& layout,
                           const MachineSpeeds& speeds = {});

}  // namespace penstock
