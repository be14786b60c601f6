// Counters, verbose lines and the reference-only switch behind dispatch.h and implementation.h.
#include "penstock/ops/dispatch.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string_view>

#include "penstock/ops/cpu/onednn/matmul.h"
#include "penstock/ops/cpu/xsmm/product.h"
#include "penstock/ops/implementation.h"

namespace penstock::ops {
namespace {

std::mutex mutex;
std::map<std::string, std::int64_t> counts;
std::set<std::string> reported;
std::atomic<int> reference_only_depth{0};

}  // namespace

void anchor() {}

std::map<std::string, std::int64_t> dispatch_counts() {
  const std::lock_guard lock(mutex);
  return counts;
}

bool built_with(const std::string& kernels) {
  return kernels == "onednn" ? onednn::built() : kernels == "xsmm" && xsmm::built();
}

void reset_dispatch_counts() {
  const std::lock_guard lock(mutex);
  counts.clear();
}

ReferenceOnly::ReferenceOnly() { ++reference_only_depth; }
ReferenceOnly::~ReferenceOnly() { --reference_only_depth; }

bool reference_only() { return reference_only_depth.load(std::memory_order_relaxed) > 0; }

bool verbose() {
  static const bool on = [] {
    const char* value = std::getenv("PENSTOCK_VERBOSE");
    return value && std::string_view(value) != "" && std::string_view(value) != "0";
  }();
  return on;
}

void count_run(const std::string& op_and_name) {
  const std::lock_guard lock(mutex);
  ++counts[op_and_name];
}

void report_choice(const std::string& op, const std::string& shapes, const std::string& name,
                   const std::string& declined) {
  const std::lock_guard lock(mutex);
  if (!reported.insert(op + "(" + shapes + ")").second) return;
  std::fprintf(stderr, "penstock: %s(%s) -> %s%s%s%s\n", op.c_str(), shapes.c_str(), name.c_str(),
               declined.empty() ? "" : " (", declined.c_str(), declined.empty() ? "" : ")");
}

std::string describe(const at::Tensor& tensor) {
  if (!tensor.defined()) return "none";
  std::string text = concat(tensor.scalar_type(), tensor.is_cuda() ? " cuda [" : " [");
  for (std::int64_t i = 0; i < tensor.dim(); ++i) text += concat(i ? "," : "", tensor.size(i));
  return text + "]";
}

std::string describe(const c10::optional<at::Tensor>& tensor) {
  return tensor ? describe(*tensor) : "none";
}

std::string describe(at::TensorList tensors) { return concat(tensors.size(), " tensors"); }

double bytes_of(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<double>(tensor.nbytes()) : 0;
}
double bytes_of(const c10::optional<at::Tensor>& tensor) { return tensor ? bytes_of(*tensor) : 0; }
double bytes_of(at::TensorList tensors) {
  double sum = 0;
  for (const auto& tensor : tensors) sum += bytes_of(tensor);
  return sum;
}

}  // namespace penstock::ops
