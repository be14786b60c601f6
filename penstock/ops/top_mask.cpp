#include "penstock/ops/top_mask.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "penstock/base/error.h"

namespace penstock::ops {
namespace {

/// Whether a comes before b in a row's order: larger first, NaN last. Equal entries keep the order
/// of their columns, because columns are visited in ascending order.
template <class Real>
bool beats(Real a, Real b) {
  return a > b || (std::isnan(b) && !std::isnan(a));
}

template <class Real>
void mark_rows(const Real* logits, bool* mask, std::int64_t columns, std::int64_t k,
               std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> best(k);  // columns, best first
  for (std::int64_t r = begin; r < end; ++r) {
    const Real* row = logits + r * columns;
    for (std::int64_t c = 0; c < columns; ++c) {
      // Most columns lose to the k-th best and cost this one comparison.
      std::int64_t place = std::min(c, k);
      if (place == k && !beats(row[c], row[best[k - 1]])) continue;
      if (place == k) --place;
      for (; place > 0 && beats(row[c], row[best[place - 1]]); --place)
        best[place] = best[place - 1];
      best[place] = c;
    }
    for (const std::int64_t c : best) mask[r * columns + c] = true;
  }
}

}  // namespace

at::Tensor top_mask_reference(const at::Tensor& logits, std::int64_t k) {
  // A NaN sorts as largest; a second stable sort moves it behind every number.
  const at::Tensor values = logits.detach();
  const at::Tensor by_value = std::get<1>(at::sort(values, /*stable=*/true, 1, true));  // [R, C]
  const at::Tensor numbers = values.isnan().logical_not_().gather(1, by_value);
  const at::Tensor numbers_first =
      std::get<1>(at::sort(numbers.to(at::kByte), /*stable=*/true, 1, true));
  const at::Tensor best = by_value.gather(1, numbers_first).slice(1, 0, k);  // [R, k]
  return at::zeros(values.sizes(), values.options().dtype(at::kBool)).scatter_(1, best, true);
}

at::Tensor top_mask(const at::Tensor& logits, std::int64_t k) {
  PENSTOCK_ASSERT(logits.dim() == 2 && k >= 0 && k <= logits.size(1), "k = ", k);
  if (!logits.is_cpu()) return top_mask_reference(logits, k);
  const at::Tensor values = logits.detach().contiguous();
  at::Tensor mask = at::zeros(values.sizes(), values.options().dtype(at::kBool));
  if (k == 0) return mask;
  const std::int64_t columns = values.size(1);
  AT_DISPATCH_FLOATING_TYPES(values.scalar_type(), "top_mask", [&] {
    const auto* in = values.data_ptr<scalar_t>();
    auto* out = mask.data_ptr<bool>();
    const std::int64_t grain =
        std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, columns));
    at::parallel_for(0, values.size(0), grain, [&](std::int64_t begin, std::int64_t end) {
      mark_rows(in, out, columns, k, begin, end);
    });
  });
  return mask;
}

}  // namespace penstock::ops
