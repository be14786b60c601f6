// A check of options whose empty value would count as an option that is not given.
#pragma once

#include <CLI/CLI.hpp>

namespace penstock {

/// For ->check(). Refuses an empty value, such as that of an unset shell variable.
CLI::Validator given_value();

}  // namespace penstock
