#include "penstock/convert/export/not_portable.h"

namespace penstock {

void fail_needs_bias(const std::string& detail, const std::string& option) {
  throw NotPortableError(concat(
      "needs a bias: the router adds a number to each expert's logit, and no router of other "
      "programs does (",
      detail, "); train ", option.empty() ? "without it" : concat("with ", option, " = false"),
      ", or put it into the matrix as well as a text allows (options.fit_bias)"));
}

}  // namespace penstock
