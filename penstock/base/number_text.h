// Formats numbers and sizes for messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock {

/// "1048576", "0.25", "1e-05": whole numbers below 1e15 have all their digits, others have six.
std::string number_text(double value);

/// "21.3 GiB", below one GiB "512 MiB", below one MiB "12 KiB".
std::string size_text(double bytes);

/// "1 step", "0 steps", "1,200 steps": a count of things. `noun` is the singular of a noun whose
/// plural has an s at its end.
std::string count_text(std::int64_t count, std::string_view noun);

}  // namespace penstock
