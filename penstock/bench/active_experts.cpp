#include "penstock/bench/active_experts.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "penstock/base/error.h"

namespace penstock::bench {

double shift_for(const at::Tensor& logits, double target) {
  const at::Tensor flat = logits.detach().to(at::kCPU, at::kFloat).flatten().contiguous();
  std::vector<float> values(flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
  if (values.empty()) return 0;
  const auto count = std::clamp<std::int64_t>(
      std::llround(target * static_cast<double>(logits.size(0))), 0, flat.numel());
  const auto middle = values.begin() + count;  // of the order, largest first
  if (count == 0) return -1.0 - *std::ranges::max_element(values);
  if (count == flat.numel()) return 1.0 - *std::ranges::min_element(values);
  std::nth_element(values.begin(), middle, values.end(), std::greater());
  const double smallest_on = *std::min_element(values.begin(), middle);
  return -(smallest_on + static_cast<double>(*middle)) / 2;
}

std::function<double(const at::Tensor&)> ActiveExperts::finding() {
  shifts_.clear();
  return
      [this](const at::Tensor& logits) { return shifts_.emplace_back(shift_for(logits, target_)); };
}

std::function<double(const at::Tensor&)> ActiveExperts::repeating() {
  next_ = 0;
  return [this](const at::Tensor&) {
    PENSTOCK_ASSERT(!shifts_.empty(), "shifts are found before they are repeated");
    return shifts_[next_++ % shifts_.size()];
  };
}

}  // namespace penstock::bench
