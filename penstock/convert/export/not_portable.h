// The error of an export whose model no other program computes.
#pragma once

#include <string>

#include "penstock/base/error.h"

namespace penstock {

/// No file of the format computes what the model computes. what() begins with the verdict:
/// "needs a bias: ..." or "not portable, because ...".
class NotPortableError : public Error {
 public:
  using Error::Error;
};

/// The error for a router with logits z_e + b_e where b differs between experts; other programs
/// have no such bias.
/// @param option  which turns the bias off; "": none does
[[noreturn]] void fail_needs_bias(const std::string& detail, const std::string& option);
template <class... Parts>
[[noreturn]] void fail_not_portable(const Parts&... parts) {
  throw NotPortableError(concat("not portable, because ", parts...));
}

}  // namespace penstock
