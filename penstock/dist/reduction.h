// How the tensors of several ranks are reduced to one.
#pragma once

namespace penstock::dist {

/// There is no mean: the caller divides the sum by a number that all ranks know.
enum class Reduction { sum, max };

}  // namespace penstock::dist
