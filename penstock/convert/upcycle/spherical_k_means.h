// Spherical k-means: clusters vectors by direction. router_start.h chooses the vectors and uses the
// directions.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace penstock {

struct SphericalKMeans {
  at::Tensor centres;  ///< [C, d] f64, of length 1
  at::Tensor sizes;    ///< [C] i64, number of rows that are nearest to each centre
  double cosine = 0;   ///< mean over rows of the cosine to the nearest centre
};

/// Directions c_i at a local maximum of Σ_t max_i ⟨c_i, x_t / ‖x_t‖⟩. The centres start at rows,
/// each drawn with probability proportional to 1 − the cosine to the nearest centre so far
/// (k-means++). In each round every row goes to its nearest centre, ties to the lower one, and each
/// centre becomes the mean of its rows, scaled to length 1, until no row moves or for 100 rounds. A
/// centre without rows takes the row that is farthest from its own centre. The same arguments give
/// the same centres.
/// @param rows [n, d]; rows of length 0 are left out.  @param count C > 0
/// Throws Error if fewer than C rows differ in direction. Computed in f64; cost: n·C·d a round.
/// Source: Dhillon and Modha, Machine Learning 42 (2001); Arthur and Vassilvitskii, SODA 2007.
SphericalKMeans spherical_k_means(const at::Tensor& rows, std::int64_t count, std::uint64_t seed);

}  // namespace penstock
