// Replaces the folder onednn in a build without oneDNN: it declines every problem.
#include "penstock/base/error.h"
#include "penstock/ops/cpu/onednn/matmul.h"
#include "penstock/ops/linear.h"
#include "penstock/ops/linear_cross_entropy.h"

namespace penstock::ops::onednn {
namespace {

constexpr const char* kAbsent = "built without oneDNN";

}  // namespace

bool built() { return false; }

std::string declines_linear(const at::Tensor&, const at::Tensor&, const at::Tensor&) {
  return kAbsent;
}
at::Tensor linear(const at::Tensor&, const at::Tensor&, const at::Tensor&) {
  assertion_failed("a declined problem is not run", kAbsent);
}
std::string declines_linear_backward(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                     LinearGradients) {
  return kAbsent;
}
LinearGradient linear_backward(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                               LinearGradients) {
  assertion_failed("a declined problem is not run", kAbsent);
}
std::string declines_linear_cross_entropy(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                          HeadOptions) {
  return kAbsent;
}
HeadLoss linear_cross_entropy(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                              HeadOptions) {
  assertion_failed("a declined problem is not run", kAbsent);
}

}  // namespace penstock::ops::onednn
