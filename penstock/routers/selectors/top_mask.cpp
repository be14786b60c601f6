#include "penstock/routers/selectors/top_mask.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include "penstock/base/error.h"

namespace penstock {
namespace {

template <class Real>
void mark_rows(const Real* logits, bool* mask, std::int64_t columns, std::int64_t k,
               std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    const Real* row = logits + r * columns;
    bool* taken = mask + r * columns;
    for (std::int64_t i = 0; i < k; ++i) {
      std::int64_t best = -1;
      for (std::int64_t c = 0; c < columns; ++c) {
        if (taken[c]) continue;
        // Strictly greater keeps the lowest column; a NaN is replaced by any number.
        if (best < 0 || row[c] > row[best] || (row[best] != row[best] && row[c] == row[c]))
          best = c;
      }
      taken[best] = true;
    }
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

}  // namespace penstock
