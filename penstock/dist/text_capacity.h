// How many bytes ProcessGroup::gather() reserves for each rank's text.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace penstock::dist {

/// The bytes reserved for a text, computed from the longest texts of the last few gathers, which
/// all ranks know. So most gathers need one exchange, and one long text, such as a recipe at the
/// start, does not enlarge later exchanges for long.
class TextCapacity {
 public:
  /// The bytes reserved after texts of that length: a quarter more, since lengths vary.
  static std::int64_t after(std::int64_t longest) {
    return std::max(kLeast, longest + longest / 4);
  }
  std::int64_t bytes() const { return after(*std::max_element(lengths_.begin(), lengths_.end())); }
  /// @param longest  length of the longest text of a gather
  void add(std::int64_t longest) { lengths_[next_++ % lengths_.size()] = longest; }

 private:
  static constexpr std::int64_t kLeast = 256;
  std::array<std::int64_t, 4> lengths_{};
  std::size_t next_ = 0;
};

}  // namespace penstock::dist
