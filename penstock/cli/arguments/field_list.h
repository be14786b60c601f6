// The list of keys that `--keys` of a command prints.
#pragma once

#include <vector>

#include "penstock/base/fields.h"

namespace penstock {

/// Prints a line for each field: its key, type, default ("-" without one), help and range, in
/// columns.
void print_fields(const std::vector<FieldDescription>& fields);

}  // namespace penstock
