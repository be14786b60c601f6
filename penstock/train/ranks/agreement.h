// Checks between the processes of a run: that none has failed, that all begin with the same
// program, recipe and text, and that the weights that they have in common are still equal.
#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/dist/group.h"
#include "penstock/dist/mesh.h"
#include "penstock/models/counts/recomputation.h"
#include "penstock/ops/slice.h"

namespace penstock {

struct ParallelConfig;
struct Recipe;

/// All ranks but rank 0 throw it when a rank of the run failed. Rank 0 reports the reason.
class ReportedByRankZero : public Error {
 public:
  using Error::Error;
};

/// Rank 0 throws it when another rank failed. A rank also throws it for its own failure if the
/// others do not know the reason. It names the failed rank.
class FailureOfRank : public Error {
 public:
  using Error::Error;
};

/// Throws if one of the failures, by rank, is not "". Rank 0 rethrows `thrown` if it failed itself,
/// otherwise it throws FailureOfRank for the first rank that failed. The other ranks throw
/// ReportedByRankZero.
/// @param thrown  the exception of this rank's part of the work, or null
void throw_first_failure(const dist::ProcessGroup& group, const std::vector<std::string>& failures,
                         const std::exception_ptr& thrown);
/// The same, after the ranks have exchanged the messages of their exceptions.
void check_none_failed(const dist::ProcessGroup& group, const std::exception_ptr& thrown);

/// @return the result of `action`, once it has succeeded on all ranks. Throws as
/// check_none_failed(). An action with operations of the group may throw dist::LostRank, which is
/// passed on, because the ranks can no longer agree once one is lost.
template <class Action>
auto on_all_ranks(const dist::ProcessGroup& group, const Action& action) {
  std::optional<std::invoke_result_t<Action>> out;
  std::exception_ptr thrown;
  try {
    out.emplace(action());
  } catch (const dist::LostRank&) {
    throw;
  } catch (...) {
    if (group.size() == 1) throw;
    thrown = std::current_exception();
  }
  check_none_failed(group, thrown);
  return std::move(*out);
}

/// Throws, as check_none_failed(), if a rank's layout differs from rank 0's. Call it before the
/// layout's groups are made: ranks with different layouts would wait for each other there.
void check_same_layout(const dist::ProcessGroup& group, const dist::Layout& layout,
                       const ParallelConfig& parallel);

/// Throws, as check_none_failed(), if a rank's build, kind of processor, recipe or corpus differs
/// from rank 0's. Updates on different kinds of processors differ in the last bits.
void check_same_beginning(const dist::ProcessGroup& group, const Recipe& recipe,
                          const std::string& corpus_hash);

/// Throws, as check_none_failed(), if ranks that compute layers together would make different
/// passes. A layer that is computed again repeats its exchanges. Where ranks divide layers by
/// tensor or by experts, all ranks have to choose the same layers. Sums over rows are divided over
/// threads, which decides their last bits. The ranks along `tensor` make the same sums, so they
/// have to have the same number of threads.
/// @param recomputed  layers that this rank computes again;  @param threads  of this process
void check_same_passes(const dist::ProcessGroup& group, const dist::Layout& layout,
                       const Recomputation& recomputed, int threads);

/// A rank's slice of a tensor of the model.
struct HeldWeights {
  std::string name;
  Slice slice;
  at::Tensor numbers;  ///< of the slice
};

/// Throws, as check_none_failed(), if two ranks hold the same slice of a tensor and its numbers are
/// not equal. The message names the tensor and both ranks. Only numbers that several ranks hold are
/// read.
/// @param held  this rank's tensors. Tensors that it leaves out are not compared on this rank.
void check_same_weights(const dist::ProcessGroup& group, const std::vector<HeldWeights>& held);

}  // namespace penstock
