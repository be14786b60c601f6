#include "penstock/cli/arguments/whole_number.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>

#include "penstock/base/error.h"
#include "penstock/base/number_text.h"

namespace penstock {
namespace {

/// The finite number that the whole text spells. `error` tells of a number that 64 bits cannot
/// hold.
std::optional<double> finite_number(const std::string& text, std::errc& error) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  error = read.ptr == end ? read.ec : std::errc::invalid_argument;
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

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
    std::errc error{};
    const auto value = finite_number(text, error);
    if (error == std::errc::result_out_of_range)
      return concat("must be a number that 64 bits hold, not ", text);
    if (!value) return concat("must be a number, not '", text, "'");
    if (*value < least) return concat("must be ", number_text(least), " or more, not ", text);
    if (*value > most) return concat("must be ", number_text(most), " or less, not ", text);
    return "";
  };
  return CLI::Validator(check, "");
}

CLI::Validator positive_number() {
  const auto check = [](std::string& text) -> std::string {
    std::errc error{};
    const auto value = finite_number(text, error);
    if (value && *value > 0) return "";
    return concat("must be a number above 0, not '", text, "'");
  };
  return CLI::Validator(check, "");
}

}  // namespace penstock
