// Requests that share what is computed: a beginning that is read once, and branches that go on from
// it. Only lists of tokens; scoring.cpp runs them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "penstock/tasks/encode.h"

namespace penstock::tasks {

/// A token that is scored by the row at `position`, counted from the beginning's first token.
struct Target {
  std::size_t request = 0;
  std::size_t position = 0;
  TokenId id = 0;
};

/// What follows the beginning in one of the sequences.
struct Branch {
  std::vector<TokenId> tokens;
  std::vector<Target> targets;
};

struct Bundle {
  std::size_t item = 0;
  std::vector<TokenId> beginning;
  std::vector<Target> targets;  ///< scored by the beginning's own rows
  std::vector<Branch> branches;

  /// Tokens that are read.
  std::size_t tokens() const;
  /// Tokens of the longest sequence.
  std::size_t longest() const;
};

/// The bundles of an item's requests. Requests that read the same tokens (all but their last) are
/// one. With `share`, what all sequences begin with is the beginning of one bundle; otherwise, and
/// where it is shorter than `least_shared`, each sequence is a bundle of its own.
std::vector<Bundle> make_bundles(std::size_t item, std::span<const TokenRequest> requests,
                                 bool share, std::size_t least_shared = 8);

}  // namespace penstock::tasks
