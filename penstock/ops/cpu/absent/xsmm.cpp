// Replaces the folder xsmm in a build without libxsmm: it declines every problem.
#include "penstock/base/error.h"
#include "penstock/ops/cpu/xsmm/product.h"
#include "penstock/ops/expert_ffn.h"
#include "penstock/ops/linear.h"

namespace penstock::ops::xsmm {
namespace {

constexpr const char* kAbsent = "built without libxsmm";

}  // namespace

bool built() { return false; }
bool supported() { return false; }
Product compile(const ProductShape&) {
  assertion_failed("nothing is compiled where it is not supported", kAbsent);
}

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
std::string declines_expert_ffn(const ExpertProblem&, bool) { return kAbsent; }
ExpertOutput expert_ffn(const ExpertProblem&, bool) {
  assertion_failed("a declined problem is not run", kAbsent);
}
std::string declines_expert_ffn_backward(const at::Tensor&, const ExpertProblem&,
                                         const at::Tensor&) {
  return kAbsent;
}
ExpertGradient expert_ffn_backward(const at::Tensor&, const ExpertProblem&, const at::Tensor&) {
  assertion_failed("a declined problem is not run", kAbsent);
}

}  // namespace penstock::ops::xsmm
