// Kernels of AdamW and of the global norm. Not public: callers use ops.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "penstock/ops/ops.h"
#include "penstock/ops/square_sums.h"

namespace penstock::ops {

/// One tensor of an optimizer step.
struct AdamWItem {
  at::Tensor weight, grad, m, v;
  double decay;
};
std::string describe(const std::vector<AdamWItem>& items);
std::string describe(const AdamWOptions& options);

namespace reference {
void adamw_step(const std::vector<AdamWItem>& items, const AdamWOptions& options);
std::vector<double> square_sums(const std::vector<at::Tensor>& tensors);
}  // namespace reference

namespace cpu {
/// Threads divide the pieces of all tensors. The bits do not depend on the number of threads.
std::string declines_adamw(const std::vector<AdamWItem>& items, const AdamWOptions& options);
void adamw_step(const std::vector<AdamWItem>& items, const AdamWOptions& options);
std::string declines_square_sums(const std::vector<at::Tensor>& tensors);
std::vector<double> square_sums(const std::vector<at::Tensor>& tensors);
}  // namespace cpu

}  // namespace penstock::ops
