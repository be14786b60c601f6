// Spherical k-means: directions around which vectors lie. router_start.h chooses the vectors and
// uses the directions.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace penstock {

struct SphericalKMeans {
  at::Tensor centres;  ///< [C, d] f64, of length 1
  at::Tensor sizes;    ///< [C] i64, rows that are nearest to each
  double cosine = 0;   ///< mean over rows of that to the nearest centre
};

/// Directions that raise Σ_t max_i ⟨c_i, x_t / ‖x_t‖⟩ to a local maximum: from the next row, drawn
/// with probability in proportion to 1 − the cosine to the nearest centre so far (k-means++), each
/// row goes to its nearest centre, ties to the lower one, and each centre to the mean of its rows,
/// made to length 1, until no row moves or after 100 rounds. A centre without rows takes the row
/// that is farthest from its own. The same arguments give the same centres.
/// @param rows [n, d]; those of length 0 are left out.  @param count C > 0
/// Throws Error where fewer than C rows differ in direction. Computed in f64; cost: n·C·d a round.
/// Source: Dhillon and Modha, Machine Learning 42 (2001); Arthur and Vassilvitskii, SODA 2007.
SphericalKMeans spherical_k_means(const at::Tensor& rows, std::int64_t count, std::uint64_t seed);

}  // namespace penstock
