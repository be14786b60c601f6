// Joins a list of texts. concat() of error.h joins parts of different types.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace penstock {

/// The items' texts in order, with `between` between them: "a, b, c". Nothing stands between empty
/// texts at the beginning and the first other one.
/// @param text  gives an item's text; a member of the item also will do
template <class Items, class Text = std::identity>
std::string joined(const Items& items, std::string_view between = ", ", Text text = {}) {
  std::string out;
  for (const auto& item : items) {
    if (!out.empty()) out += between;
    out += std::invoke(text, item);
  }
  return out;
}

}  // namespace penstock
