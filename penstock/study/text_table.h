// Columns of text for a terminal.
#pragma once

#include <string>
#include <vector>

namespace penstock::study {

/// Lines of equally many cells, the first column to the left, the others to the right. Characters
/// of UTF-8 count as one column each.
std::string aligned(const std::vector<std::vector<std::string>>& lines);

}  // namespace penstock::study
