#include "penstock/infer/logits_tap.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>

namespace penstock {
namespace {

/// The largest number of rows whose logits exist at a time.
constexpr std::int64_t kRowsAtOnce = 64;

}  // namespace

void show_logits(LanguageModel& model, const at::Tensor& hidden, const LogitsTap& tap) {
  for (std::int64_t first = 0; first < hidden.size(0); first += kRowsAtOnce) {
    const at::Tensor rows = hidden.narrow(0, first, std::min(kRowsAtOnce, hidden.size(0) - first));
    tap(model.logits(rows).to(at::kCPU, at::kFloat).contiguous());
  }
}

}  // namespace penstock
