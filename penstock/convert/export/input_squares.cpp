#include "penstock/convert/export/input_squares.h"

#include <torch/types.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "penstock/convert/window_passes.h"
#include "penstock/models/counts/model_tensors.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/product_tap.h"

namespace penstock {
namespace {

constexpr std::int64_t kFewestRows = 32;
constexpr double kLeastWeight = 0.01;
constexpr std::int64_t kTokensAtOnce = 1024;

/// Sums of squares by the weight tensor that operators get.
class SquareSums {
 public:
  void add(const at::Tensor& rows, const at::Tensor& weight, std::int64_t matrix) {
    if (rows.size(0) == 0) return;
    Sum& sum = sums_[{weight.unsafeGetTensorImpl(), matrix}];
    const at::Tensor squares = rows.to(at::kFloat).square().sum(0, false, at::kDouble).cpu();
    sum.squares = sum.squares.defined() ? sum.squares + squares : squares;
    sum.rows += rows.size(0);
  }
  InputSquares of(const at::Tensor& weight, std::int64_t matrix) const {
    const auto found = sums_.find({weight.unsafeGetTensorImpl(), matrix});
    if (found == sums_.end()) return {};
    const at::Tensor squares = found->second.squares.contiguous();
    const auto* const from = squares.data_ptr<double>();
    return {{from, from + squares.numel()}, found->second.rows};
  }

 private:
  struct Sum {
    at::Tensor squares;  // [in] f64
    std::int64_t rows = 0;
  };
  std::map<std::pair<const void*, std::int64_t>, Sum> sums_;
};

/// Computes the head's products for some rows at a time, because all logits of a pass would not fit
/// in memory.
void multiply_head(const LanguageModel& model, const at::Tensor& hidden) {
  const std::int64_t row_bytes = model.config().vocab * static_cast<std::int64_t>(sizeof(float));
  for (const at::Tensor& rows :
       hidden.split(std::max<std::int64_t>(1, ops::kLogitsBytes / row_bytes)))
    model.logits(rows);
}

}  // namespace

std::map<std::string, InputSquares> input_squares(LanguageModel& model, const at::Tensor& windows,
                                                  const ConversionProgress& progress) {
  SquareSums sums;
  {
    const ops::ProductTap tap([&](const at::Tensor& rows, const at::Tensor& weight,
                                  std::int64_t matrix) { sums.add(rows, weight, matrix); });
    const std::int64_t step = std::max<std::int64_t>(1, kTokensAtOnce / windows.size(1));
    const auto pass = [&](const at::Tensor& tokens) {
      multiply_head(model, model.forward({.tokens = tokens}, {}).hidden);
    };
    run_over_windows(model, windows, step, pass, "inputs over the text", progress);
  }
  const auto parameters = model.named_parameters();
  std::map<std::string, InputSquares> out;
  for (const ModelTensor& tensor : backbone_tensors(model.config())) {
    const at::Tensor* const parameter = parameters.find(tensor.module);
    if (!parameter || tensor.shape.size() != 2) continue;
    for (std::int64_t e = 0; e < std::max<std::int64_t>(1, tensor.experts); ++e) {
      InputSquares squares = sums.of(*parameter, e);
      if (squares.rows > 0 || tensor.experts > 0) out[tensor.name(e)] = std::move(squares);
    }
  }
  return out;
}

std::vector<float> column_weights(const InputSquares& squares) {
  const double sum = std::accumulate(squares.sums.begin(), squares.sums.end(), 0.0);
  if (squares.rows < kFewestRows || !(sum > 0)) return {};
  const double mean = sum / static_cast<double>(squares.sums.size());
  std::vector<float> out;
  for (const double own : squares.sums)
    out.push_back(static_cast<float>(std::max(own / mean, kLeastWeight)));
  return out;
}

}  // namespace penstock
