#include "penstock/ops/slice.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/base/error.h"

namespace penstock {
namespace {

std::int64_t total(const std::vector<IndexRange>& ranges) {
  std::int64_t out = 0;
  for (const IndexRange& range : ranges) out += range.size();
  return out;
}

void put_axis(const at::Tensor& whole, const Slice& slice, const at::Tensor& part,
              std::int64_t axis) {
  if (axis == whole.dim()) {
    whole.copy_(part);
    return;
  }
  std::int64_t done = 0;
  for (const IndexRange& range : slice.ranges[static_cast<std::size_t>(axis)]) {
    put_axis(whole.narrow(axis, range.first, range.size()), slice,
             part.narrow(axis, done, range.size()), axis + 1);
    done += range.size();
  }
}

}  // namespace

IndexRange equal_part(std::int64_t size, int index, int count) {
  PENSTOCK_ASSERT(index >= 0 && index < count && size % count == 0, size, " in ", count);
  return {size / count * index, size / count * (index + 1)};
}

Slice Slice::all(std::vector<std::int64_t> shape) {
  Slice out{.shape = std::move(shape)};
  for (const std::int64_t size : out.shape) out.ranges.push_back({{0, size}});
  return out;
}

std::vector<std::int64_t> Slice::part_shape() const {
  std::vector<std::int64_t> out;
  for (const auto& axis : ranges) out.push_back(total(axis));
  return out;
}

at::Tensor take(const at::Tensor& whole, const Slice& slice) {
  PENSTOCK_ASSERT(whole.sizes() == at::IntArrayRef(slice.shape));
  at::Tensor out = whole;
  for (std::size_t axis = 0; axis < slice.ranges.size(); ++axis) {
    std::vector<at::Tensor> parts;
    for (const IndexRange& range : slice.ranges[axis])
      parts.push_back(out.narrow(static_cast<std::int64_t>(axis), range.first, range.size()));
    out = parts.size() == 1 ? parts[0] : at::cat(parts, static_cast<std::int64_t>(axis));
  }
  return out;
}

void put(const at::Tensor& whole, const Slice& slice, const at::Tensor& part) {
  const torch::NoGradGuard no_grad;
  PENSTOCK_ASSERT(whole.sizes() == at::IntArrayRef(slice.shape) &&
                  part.sizes() == at::IntArrayRef(slice.part_shape()));
  put_axis(whole, slice, part, 0);
}

}  // namespace penstock
