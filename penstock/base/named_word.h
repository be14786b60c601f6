// Converts a word to the value of an enum, for words from the command line or Python instead of a
// config.
#pragma once

#include <string>
#include <string_view>

#include "penstock/base/error.h"
#include "penstock/base/fields.h"
#include "penstock/base/joined.h"

namespace penstock {

/// The enum's words, separated by commas: "high, low".
template <Worded E>
std::string word_list() {
  return joined(words(E()));
}

/// The value of the word `text`. Throws Error if it is not a word of the enum; the message begins
/// with `key` and lists the enum's words.
template <Worded E>
E named_word(std::string_view text, const std::string& key) {
  const auto found = of_word<E>(text);
  PENSTOCK_CHECK(found, key, " = '", text, "': choose from ", word_list<E>());
  return *found;
}

}  // namespace penstock
