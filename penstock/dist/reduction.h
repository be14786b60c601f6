// How tensors of several ranks become one.
#pragma once

namespace penstock::dist {

/// There is no mean: whoever wants one divides by a number that all ranks know.
enum class Reduction { sum, max };

}  // namespace penstock::dist
