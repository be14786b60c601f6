// A curve without the noise of single steps, for the pages. Which curves are drawn is charts.h's
// matter.
#pragma once

#include <vector>

namespace penstock::study {

/// The mean of a window around each point, a fiftieth of the values wide and at most 25 to a side;
/// at both ends the window shrinks, so that it stays even.
std::vector<double> smoothed(const std::vector<double>& values);

}  // namespace penstock::study
