#include "penstock/routers/selectors/capacity.h"

#include <torch/types.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "penstock/base/error.h"

namespace penstock {

std::int64_t expert_capacity(double factor, double k, std::int64_t tokens, std::int64_t experts) {
  // A rounding error of the product must not change the capacity: 1.1·10 / 1 is 11, not 12.
  const double places = factor * k * static_cast<double>(tokens) / static_cast<double>(experts);
  return static_cast<std::int64_t>(std::ceil(places - 1e-9));
}

void check_capacity(const char* selector, double capacity, double eval_capacity) {
  const auto check = [&](const char* key, double value) {
    PENSTOCK_CHECK(value > 0, "model.router.", selector, ".", key, " = ", value,
                   " leaves experts no capacity, so that none computes anything; set it above 0, "
                   "for example to 1.25");
  };
  check("capacity", capacity);
  check("eval_capacity", eval_capacity);
}

bool never_full(double factor, double k, std::int64_t experts) {
  return factor * k >= static_cast<double>(experts);
}

at::Tensor within_capacity(const at::Tensor& mask, std::int64_t capacity, const at::Tensor& taken) {
  at::Tensor place = mask.cumsum(0, at::kLong);  // [T, E], from 1 where mask is true
  if (taken.defined()) place = place + taken;
  return mask.logical_and(place.le(capacity));
}

std::int64_t total(const at::Tensor& counts) {
  const auto* const of = counts.data_ptr<std::int64_t>();
  return std::accumulate(of, of + counts.numel(), std::int64_t{0});
}

at::Tensor softmax_among(const at::Tensor& logits, const at::Tensor& mask) {
  return logits.masked_fill(mask.logical_not(), -std::numeric_limits<double>::infinity())
      .softmax(1);
}

}  // namespace penstock
