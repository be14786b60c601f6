// The text of numbers and sizes in messages.
#pragma once

#include <string>

namespace penstock {

/// "1048576", "0.25", "1e-05": whole numbers below 1e15 have all their digits, others have six.
std::string number_text(double value);

/// "21.3 GiB", or below one GiB "512 MiB".
std::string size_text(double bytes);

}  // namespace penstock
