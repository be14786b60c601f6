// What the processes of a run settle between them: that all of them could begin, that they begin
// with the same program, recipe and text, and that their weights are still equal.
#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/dist/group.h"
#include "penstock/dist/mesh.h"

namespace penstock {

struct ParallelConfig;
struct Recipe;

/// The run failed, here or elsewhere, and rank 0 says why: what the other ranks throw.
class ReportedByRankZero : public Error {
 public:
  using Error::Error;
};

/// Rank 0 throws it when another rank failed. It names the failed rank.
class FailureOfRank : public Error {
 public:
  using Error::Error;
};

/// Throws where one of the failures, by rank, is not "": on rank 0 what it threw itself, or
/// FailureOfRank; the others ReportedByRankZero.
/// @param thrown  what this rank's part of the work threw, or null
void throw_first_failure(const dist::ProcessGroup& group, const std::vector<std::string>& failures,
                         const std::exception_ptr& thrown);
/// The same after an exchange of what each rank threw.
void check_none_failed(const dist::ProcessGroup& group, const std::exception_ptr& thrown);

/// @return the result of `action`, once it has succeeded on all ranks; see check_none_failed().
template <class Action>
auto on_all_ranks(const dist::ProcessGroup& group, const Action& action) {
  std::optional<std::invoke_result_t<Action>> out;
  std::exception_ptr thrown;
  try {
    out.emplace(action());
  } catch (...) {
    if (group.size() == 1) throw;
    thrown = std::current_exception();
  }
  check_none_failed(group, thrown);
  return std::move(*out);
}

/// Throws, as check_none_failed(), where a rank divides the work otherwise than rank 0: before
/// groups are made by it, in which ranks that differ would wait for each other.
void check_same_layout(const dist::ProcessGroup& group, const dist::Layout& layout,
                       const ParallelConfig& parallel);

/// Throws, as check_none_failed(), where a rank has another build, another kind of processor (their
/// updates would differ in the last bits), another recipe or another corpus than rank 0.
void check_same_beginning(const dist::ProcessGroup& group, const Recipe& recipe,
                          const std::string& corpus_hash);

/// Throws, as check_none_failed(), where a rank's weights are not those of the first rank that
/// holds the same part of the model.
/// @param part  names it
void check_same_weights(const dist::ProcessGroup& group,
                        const std::map<std::string, at::Tensor>& weights,
                        const std::string& part = "");

}  // namespace penstock
