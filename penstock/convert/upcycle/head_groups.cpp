#include "penstock/convert/upcycle/head_groups.h"

#include <torch/types.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "penstock/base/error.h"

namespace penstock {
namespace {

/// What must not repeat in two groups of heads: the keys' content, the heads' numbers, or nothing.
enum class Repeats { of_content, of_heads, allowed };

/// Searches partitions of the heads into groups. The search is greedy. It goes back if a group
/// repeats an earlier group.
class Grouper {
 public:
  /// @param copies  number of copies of each head; head h is copy 0 of h, H + h is copy 1, and
  ///                so on
  Grouper(const at::Tensor& keys, std::int64_t copies, std::int64_t size, Repeats refused)
      : size_(size), heads_(keys.size(0) * copies), refused_(refused) {
    const at::Tensor similarity = key_similarity(keys).repeat({copies, copies}).contiguous();
    similarity_.assign(similarity.data_ptr<double>(),
                       similarity.data_ptr<double>() + similarity.numel());
    for (std::int64_t a = 0; a < heads_; ++a) {
      std::int64_t same = a;
      for (std::int64_t b = 0; refused == Repeats::of_content && b < a && same == a; ++b)
        if (keys[a].equal(keys[b])) same = class_[static_cast<std::size_t>(b)];
      class_.push_back(same);
    }
  }

  /// A partition of all heads, none of whose groups was in an earlier partition; nullopt: not
  /// found.
  std::optional<std::vector<HeadGroup>> next() {
    std::vector<std::int64_t> left;
    for (std::int64_t head = 0; head < heads_; ++head) left.push_back(head);
    groups_.clear();
    const auto before = taken_;
    if (!begin_group(left)) {
      taken_ = before;
      return std::nullopt;
    }
    std::ranges::sort(groups_);
    return groups_;
  }

 private:
  double similarity(std::int64_t a, std::int64_t b) const {
    return similarity_[static_cast<std::size_t>(a * heads_ + b)];
  }
  HeadGroup content(const HeadGroup& group) const {
    HeadGroup out;
    for (const std::int64_t head : group) out.push_back(class_[static_cast<std::size_t>(head)]);
    std::ranges::sort(out);
    return out;
  }
  static std::vector<std::int64_t> without(std::vector<std::int64_t> heads, std::int64_t head) {
    std::erase(heads, head);
    return heads;
  }

  bool begin_group(const std::vector<std::int64_t>& left) {
    if (left.empty()) return true;
    if (size_ == 1) return grow({left.front()}, without(left, left.front()));
    std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
    for (std::size_t i = 0; i < left.size(); ++i)
      for (std::size_t j = i + 1; j < left.size(); ++j) pairs.emplace_back(left[i], left[j]);
    std::ranges::stable_sort(pairs, [&](const auto& a, const auto& b) {
      return similarity(a.first, a.second) > similarity(b.first, b.second);
    });
    for (const auto& [a, b] : pairs)
      if (grow({a, b}, without(without(left, a), b))) return true;
    return false;
  }

  bool grow(const HeadGroup& group, const std::vector<std::int64_t>& left) {
    if (++steps_ > kMostSteps) return false;
    if (static_cast<std::int64_t>(group.size()) == size_) return finish(group, left);
    std::vector<std::pair<double, std::int64_t>> joining;
    for (const std::int64_t head : left) {
      double sum = 0;
      for (const std::int64_t member : group) sum += similarity(head, member);
      joining.emplace_back(-sum, head);
    }
    std::ranges::sort(joining);
    for (const auto& [score, head] : joining) {
      HeadGroup larger = group;
      larger.push_back(head);
      if (grow(larger, without(left, head))) return true;
    }
    return false;
  }

  bool finish(HeadGroup group, const std::vector<std::int64_t>& left) {
    std::ranges::sort(group);
    const HeadGroup what = content(group);
    if (refused_ != Repeats::allowed && !taken_.insert(what).second) return false;
    groups_.push_back(group);
    if (begin_group(left)) return true;
    groups_.pop_back();
    taken_.erase(what);
    return false;
  }

  // Far more steps than any published case takes. A search that needs more steps fails.
  static constexpr std::int64_t kMostSteps = 20000;

  std::vector<double> similarity_;  // [H, H]
  std::int64_t size_, heads_, steps_ = 0;
  Repeats refused_;
  std::vector<std::int64_t> class_;  // for each head: the lowest head with the same key
  std::set<HeadGroup> taken_;        // contents of the groups so far
  std::vector<HeadGroup> groups_;    // groups of the partition under construction
};

std::optional<std::vector<HeadGroup>> key_groups(const at::Tensor& keys, std::int64_t routers,
                                                 std::int64_t count, Repeats refused) {
  Grouper grouper(keys, 1, keys.size(0) / routers, refused);
  std::vector<HeadGroup> out;
  while (static_cast<std::int64_t>(out.size()) < count) {
    const auto partition = grouper.next();
    if (!partition) return std::nullopt;
    out.insert(out.end(), partition->begin(), partition->end());
  }
  return out;
}

/// The groups of `copies` copies of all heads, as head numbers without copies.
std::vector<HeadGroup> groups_of_copies(const at::Tensor& keys, std::int64_t copies,
                                        std::int64_t size) {
  std::vector<HeadGroup> out = *Grouper(keys, copies, size, Repeats::allowed).next();
  for (HeadGroup& group : out) {
    for (std::int64_t& head : group) head %= keys.size(0);
    std::ranges::sort(group);
  }
  std::ranges::sort(out);
  return out;
}

}  // namespace

at::Tensor key_similarity(const at::Tensor& keys) {
  const at::Tensor wide = keys.to(at::kDouble);
  const at::Tensor unit = wide / wide.norm(2, {1}, /*keepdim=*/true).clamp_min(1e-30);
  at::Tensor out = unit.matmul(unit.t());
  out.fill_diagonal_(1);
  return out;
}

at::Tensor split_heads(const at::Tensor& keys, std::int64_t parts) {
  return keys.reshape({keys.size(0) * parts, keys.size(1) / parts});
}

std::int64_t head_parts(std::int64_t heads, std::int64_t width, std::int64_t routers) {
  if (routers > 0 && heads % routers == 0) return 1;
  PENSTOCK_CHECK(routers > 0 && routers % heads == 0 && width % (routers / heads) == 0,
                 "options.routers ", routers,
                 " (options.experts, where it is not given): the model has ", heads,
                 " heads of width ", width, "; take a divisor of ", heads,
                 ", or a multiple that cuts each head evenly");
  return routers / heads;
}

HeadGroups group_heads(const at::Tensor& keys, std::int64_t routers, std::int64_t count,
                       KeyGrouping grouping) {
  PENSTOCK_ASSERT(keys.dim() == 2 && routers > 0 && keys.size(0) % routers == 0,
                  "routers divide heads");
  PENSTOCK_CHECK(count >= routers && count % routers == 0, "options.keys ", count, " of ", routers,
                 " routers: keys are groups of heads as wide as the routers', so their number is a "
                 "multiple of the routers'");
  const bool literal = grouping == KeyGrouping::literal && count > routers;
  const std::int64_t searched = literal ? routers : count;
  HeadGroups out;
  auto groups = key_groups(keys, routers, searched, Repeats::of_content);
  if (!groups) groups = key_groups(keys, routers, searched, Repeats::of_heads);
  PENSTOCK_CHECK(groups, "options.routers ", routers, " with ", count, " keys: the ", keys.size(0),
                 " heads cannot be put in so many different groups of ", keys.size(0) / routers,
                 ", and equal keys would be tied experts; take more routers or fewer keys");
  out.keys = *groups;
  out.queries.assign(groups->begin(), groups->begin() + routers);
  if (literal) out.keys = groups_of_copies(keys, count / routers, keys.size(0) / routers);
  return out;
}

}  // namespace penstock
