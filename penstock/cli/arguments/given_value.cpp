#include "penstock/cli/arguments/given_value.h"

#include <string>

namespace penstock {

CLI::Validator given_value() {
  return CLI::Validator(
      [](std::string& value) {
        return std::string(value.empty() ? "is empty; give a value, or leave the option out" : "");
      },
      "");
}

}  // namespace penstock
