#include "penstock/tasks/bundles.h"

#include <algorithm>
#include <iterator>

namespace penstock::tasks {
namespace {

using Tokens = std::vector<TokenId>;

/// The tokens that the model reads for a request, and the targets of all requests that read them.
struct Sequence {
  Tokens tokens;
  std::vector<Target> targets;
};

std::vector<Sequence> sequences_of(std::span<const TokenRequest> requests) {
  std::vector<Sequence> out;
  for (std::size_t r = 0; r < requests.size(); ++r) {
    const TokenRequest& request = requests[r];
    const Tokens read(request.ids.begin(), request.ids.end() - 1);
    auto found = std::ranges::find(out, read, &Sequence::tokens);
    if (found == out.end()) {
      out.push_back({.tokens = read});
      found = std::prev(out.end());
    }
    for (std::size_t i = request.scored_from; i < request.ids.size(); ++i)
      found->targets.push_back({.request = r, .position = i - 1, .id = request.ids[i]});
  }
  return out;
}

std::size_t common_beginning(const std::vector<Sequence>& sequences) {
  std::size_t out = sequences.front().tokens.size();
  for (const Sequence& sequence : sequences) {
    const auto [mine, other] = std::ranges::mismatch(sequences.front().tokens, sequence.tokens);
    out = std::min(out, static_cast<std::size_t>(mine - sequences.front().tokens.begin()));
  }
  return out;
}

}  // namespace

std::size_t Bundle::tokens() const {
  std::size_t out = beginning.size();
  for (const Branch& branch : branches) out += branch.tokens.size();
  return out;
}

std::size_t Bundle::longest() const {
  std::size_t out = 0;
  for (const Branch& branch : branches) out = std::max(out, branch.tokens.size());
  return beginning.size() + out;
}

std::vector<Bundle> make_bundles(std::size_t item, std::span<const TokenRequest> requests,
                                 bool share, std::size_t least_shared) {
  std::vector<Sequence> sequences = sequences_of(requests);
  const std::size_t common = common_beginning(sequences);
  std::vector<Bundle> out;
  if (!share || sequences.size() == 1 || common < least_shared) {
    for (Sequence& sequence : sequences)
      out.push_back({.item = item,
                     .beginning = std::move(sequence.tokens),
                     .targets = std::move(sequence.targets)});
    return out;
  }
  Bundle bundle{.item = item};
  bundle.beginning.assign(sequences.front().tokens.begin(),
                          sequences.front().tokens.begin() + static_cast<std::ptrdiff_t>(common));
  for (const Sequence& sequence : sequences) {
    Branch branch;
    branch.tokens.assign(sequence.tokens.begin() + static_cast<std::ptrdiff_t>(common),
                         sequence.tokens.end());
    for (const Target& target : sequence.targets)
      (target.position < common ? bundle.targets : branch.targets).push_back(target);
    if (!branch.tokens.empty()) bundle.branches.push_back(std::move(branch));
  }
  out.push_back(std::move(bundle));
  return out;
}

}  // namespace penstock::tasks
