// The value of an enum that somebody names outside a config: on the command line, in Python.
#pragma once

#include <string>
#include <string_view>

#include "penstock/base/error.h"
#include "penstock/base/fields.h"

namespace penstock {

/// The enum's words, as a sentence lists them: "high, low".
template <Worded E>
std::string word_list() {
  std::string out;
  for (const std::string_view each : words(E())) out.append(out.empty() ? "" : ", ").append(each);
  return out;
}

/// Throws Error, opened by `key`, for a word that is none of the enum's, with those that are.
template <Worded E>
E named_word(std::string_view text, const std::string& key) {
  const auto found = of_word<E>(text);
  PENSTOCK_CHECK(found, key, " = '", text, "': choose from ", word_list<E>());
  return *found;
}

}  // namespace penstock
