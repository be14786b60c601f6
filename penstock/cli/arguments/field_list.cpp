#include "penstock/cli/arguments/field_list.h"

#include <fmt/format.h>

#include <algorithm>

namespace penstock {

void print_fields(const std::vector<FieldDescription>& fields) {
  // An unusually long default shifts the columns of its own line only.
  constexpr std::size_t kLongestDefault = 12;
  std::size_t key = 0, value = 1;
  for (const FieldDescription& field : fields) {
    key = std::max(key, field.path.size());
    value = std::max(value, std::min(field.default_value.size(), kLongestDefault));
  }
  for (const FieldDescription& field : fields)
    fmt::print("{:<{}} {:<7} {:<{}} {}{}\n", field.path, key, field.type,
               field.default_value.empty() ? "-" : field.default_value, value, field.help,
               field.range.empty() ? "" : " (" + field.range + ")");
}

}  // namespace penstock
