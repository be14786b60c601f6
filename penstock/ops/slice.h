// The part of a tensor that a rank holds if ranks divide the tensor. models/formats/rank_slices.h
// decides which rank holds which part.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace penstock {

/// Indices [first, last) of an axis.
struct IndexRange {
  std::int64_t first = 0, last = 0;
  std::int64_t size() const { return last - first; }
  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

/// Part `index` of [0, size) when it is divided into `count` equal parts. REQUIRES: count divides
/// size (asserted).
IndexRange equal_part(std::int64_t size, int index, int count);

/// The indices that a rank holds of each axis, as ascending ranges.
struct Slice {
  std::vector<std::int64_t> shape;              ///< shape of the whole tensor
  std::vector<std::vector<IndexRange>> ranges;  ///< by axis

  /// The slice that is the whole tensor.
  static Slice all(std::vector<std::int64_t> shape);
  std::vector<std::int64_t> part_shape() const;
  bool whole() const { return part_shape() == shape; }
  friend bool operator==(const Slice&, const Slice&) = default;
};

/// The slice of a whole tensor; a view if possible.
at::Tensor take(const at::Tensor& whole, const Slice& slice);
/// Copies the part to its place in the whole tensor. No gradient.
void put(const at::Tensor& whole, const Slice& slice, const at::Tensor& part);

}  // namespace penstock
