// The error for a model that no other program can compute.
#pragma once

#include <string>

#include "penstock/base/error.h"

namespace penstock {

/// Thrown if no file of the format computes the model's function. what() begins with the verdict:
/// "needs a bias: ..." or "not portable, because ...".
class NotPortableError : public Error {
 public:
  using Error::Error;
};

/// The error for a router with logits z_e + b_e where b differs between experts; other programs
/// have no such bias.
/// @param option  name of the option that turns the bias off; "": there is none
[[noreturn]] void fail_needs_bias(const std::string& detail, const std::string& option);
template <class... Parts>
[[noreturn]] void fail_not_portable(const Parts&... parts) {
  throw NotPortableError(concat("not portable, because ", parts...));
}

}  // namespace penstock
