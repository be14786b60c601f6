// Numbers and sizes as messages have them.
#pragma once

#include <string>

namespace penstock {

/// "1048576", "0.25", "1e-05": whole numbers below 1e15 with all their digits, others to six.
std::string number_text(double value);

/// "21.3 GiB", or below one GiB "512 MiB".
std::string size_text(double bytes);

}  // namespace penstock
