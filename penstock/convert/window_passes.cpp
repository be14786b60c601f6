#include "penstock/convert/window_passes.h"

#include <torch/types.h>

#include <algorithm>

#include "penstock/models/evaluation_mode.h"

namespace penstock {

void run_over_windows(LanguageModel& model, const at::Tensor& windows, std::int64_t rows,
                      const std::function<void(const at::Tensor& tokens)>& pass,
                      std::string_view what, const ConversionProgress& progress) {
  const EvaluationMode measuring(model);
  const std::int64_t all = windows.size(0);
  for (std::int64_t row = 0; row < all; row += rows) {
    tell(progress, what, static_cast<double>(row) / static_cast<double>(all));
    pass(windows.slice(0, row, std::min(row + rows, all)));
  }
}

}  // namespace penstock
