// The value of an enum that somebody names outside a config: on the command line, in Python.
#pragma once

#include <string>
#include <string_view>

#include "penstock/base/error.h"
#include "penstock/base/fields.h"

namespace penstock {

/// Throws Error, opened by `key`, for a word that is none of the enum's, with those that are.
template <Worded E>
E named_word(std::string_view text, const std::string& key) {
  const auto found = of_word<E>(text);
  std::string known;
  for (const std::string_view each : words(E()))
    known.append(known.empty() ? "" : ", ").append(each);
  PENSTOCK_CHECK(found, key, " = '", text, "': choose from ", known);
  return *found;
}

}  // namespace penstock
