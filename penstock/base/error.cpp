#include "penstock/base/error.h"

namespace penstock {

void assertion_failed(const char* condition, const std::string& message,
                      std::source_location where) {
  throw AssertionError(concat(where.file_name(), ":", where.line(), ": assertion failed: ",
                              condition, message.empty() ? "" : ": ", message));
}

}  // namespace penstock
