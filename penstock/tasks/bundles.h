// Bundles of requests that share a computation: a prefix that is computed once, and branches that
// continue it. They are lists of tokens; scoring.cpp runs them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "penstock/tasks/encode.h"

namespace penstock::tasks {

/// A token that is scored by the logits at `position`, counted from the prefix's first token.
struct Target {
  std::size_t request = 0;
  std::size_t position = 0;
  TokenId id = 0;
};

/// The tokens that follow the prefix in one of the sequences.
struct Branch {
  std::vector<TokenId> tokens;
  std::vector<Target> targets;
};

struct Bundle {
  std::size_t item = 0;
  std::vector<TokenId> beginning;
  std::vector<Target> targets;  ///< scored by the prefix's own logits
  std::vector<Branch> branches;

  /// The number of tokens that the model reads.
  std::size_t tokens() const;
  /// The number of tokens of the longest sequence.
  std::size_t longest() const;
};

/// The bundles of an item's requests. Requests that differ only in their last token become one
/// sequence. With `share`, the common prefix of all sequences is the beginning of one bundle.
/// Without `share`, or if that prefix is shorter than `least_shared`, each sequence is its own
/// bundle.
std::vector<Bundle> make_bundles(std::size_t item, std::span<const TokenRequest> requests,
                                 bool share, std::size_t least_shared = 8);

}  // namespace penstock::tasks
