#include "penstock/cli/arguments/whole_number.h"

#include <charconv>
#include <cmath>
#include <system_error>

#include "penstock/base/error.h"
#include "penstock/base/number_text.h"

namespace penstock {

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  const auto check = [=](std::string& text) -> std::string {
    std::int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, value);
    if (read.ec == std::errc::invalid_argument || read.ptr != end)
      return concat("must be a whole number, not '", text, "'");
    const bool fits = read.ec == std::errc();
    if (fits && value >= least && value <= most) return "";
    const bool below = fits ? value < least : text.front() == '-';
    if (below) return concat("must be ", least, " or more, not ", text);
    return concat("must be ", most, " or less, not ", text);
  };
  return CLI::Validator(check, "");
}

CLI::Validator real_number(double least, double most) {
  const auto check = [=](std::string& text) -> std::string {
    double value = 0;
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, value);
    if (read.ec == std::errc::invalid_argument || read.ptr != end || !std::isfinite(value))
      return concat("must be a number, not '", text, "'");
    if (read.ec != std::errc()) return concat("must be a number that 64 bits hold, not ", text);
    if (value < least) return concat("must be ", number_text(least), " or more, not ", text);
    if (value > most) return concat("must be ", number_text(most), " or less, not ", text);
    return "";
  };
  return CLI::Validator(check, "");
}

CLI::Validator positive_number() {
  const auto check = [](std::string& text) -> std::string {
    double value = 0;
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, value);
    if (read.ec == std::errc() && read.ptr == end && std::isfinite(value) && value > 0) return "";
    return concat("must be a number above 0, not '", text, "'");
  };
  return CLI::Validator(check, "");
}

}  // namespace penstock
