// The interface between operators and their implementations. Each operator has an ordered list of
// implementations, and the first that does not decline the problem runs. The last is the ATen
// reference, which takes every problem. Not the public interface (ops.h) and not the kernels (cpu/,
// reference/).
//
// How an operator is laid out, with linear.cpp as the example:
//   library.cpp           its schema, one line; all schemas live there
//   linear.h              its kernels' signatures: reference::linear, onednn::linear, ...
//   reference/linear.cpp  plain ATen, any device, f32 and f64; the test oracle
//   cpu/onednn/linear.cpp fast kernels; each has a `declines_...` that returns the reason why the
//                         kernel cannot run, or ""
//   linear.cpp            checks; the lists (forward, and backward as an entry of its own);
//                         a torch::autograd::Function whose backward runs the backward list;
//                         TORCH_LIBRARY_IMPL(penstock, CPU | CUDA | Autograd, m) for this operator
//                         alone; the public function, which calls dispatcher_handle<...>(name)
// The CPU and CUDA keys hold the same kernel. It runs the list, in which the fast CPU entries
// decline CUDA tensors. The Autograd kernel calls the same handle under
// AutoDispatchBelowADInplaceOrView, or recorded() (second_derivative.h) where a gradient is needed.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/ops/profile/profile.h"

namespace penstock::ops {

/// True while a ReferenceOnly lives.
bool reference_only();
/// True with PENSTOCK_VERBOSE=1 in the environment.
bool verbose();
/// Counts one run of "<op>/<name>".
void count_run(const std::string& op_and_name);
/// Prints "op shapes -> name (other: reason; ...)" the first time for each (op, shapes).
void report_choice(const std::string& op, const std::string& shapes, const std::string& name,
                   const std::string& declined);

/// An argument's text in a verbose line. Overload it for an operator's struct.
std::string describe(const at::Tensor& tensor);
std::string describe(const c10::optional<at::Tensor>& tensor);
std::string describe(at::TensorList tensors);
template <class T>
requires std::is_arithmetic_v<T> std::string describe(T value) { return concat(value); }

/// Bytes of tensors in an argument or result. Overload it for a struct with tensors. Only profiles
/// call it, for operators whose Cost leaves the bytes open.
double bytes_of(const at::Tensor& tensor);
double bytes_of(const c10::optional<at::Tensor>& tensor);
double bytes_of(at::TensorList tensors);
inline double bytes_of(const std::vector<at::Tensor>& tensors) {
  return bytes_of(at::TensorList(tensors));
}
template <class... T>
double bytes_of(const std::tuple<T...>& values);
template <class T>
double bytes_of(const T&) {
  return 0;
}
template <class... T>
double bytes_of(const std::tuple<T...>& values) {
  return std::apply([](const auto&... value) { return (bytes_of(value) + ... + 0.0); }, values);
}

/// One way to compute an operator. A null `declines` takes every problem.
template <class Signature>
struct Implementation;
template <class Result, class... Args>
struct Implementation<Result(Args...)> {
  const char* name;
  std::string (*declines)(Args...);  ///< the reason to decline the problem, or ""
  Result (*run)(Args...);
};

/// An operator's implementations, fastest first, reference last.
///   static const Implementations<at::Tensor(const at::Tensor&)> list("swiglu",
///       {{"avx512", avx512::declines_swiglu, avx512::swiglu},
///        {"reference", nullptr, reference::swiglu}});
///   return list.run(x);
/// The last argument gives the cost of one call, for profiles. Without it a call counts no FLOPs,
/// and the bytes of every operand and result once.
template <class Signature>
class Implementations;
template <class Result, class... Args>
class Implementations<Result(Args...)> {
 public:
  using Entry = Implementation<Result(Args...)>;
  using CostFunction = Cost (*)(Args...);

  /// REQUIRES: entries not empty, the last without `declines`.
  Implementations(std::string op, std::initializer_list<Entry> entries, CostFunction cost = nullptr)
      : op_(std::move(op)), entries_(entries), cost_(cost) {
    PENSTOCK_ASSERT(!entries_.empty() && !entries_.back().declines, op_, " has no reference");
    for (const Entry& entry : entries_) keys_.push_back(op_ + "/" + entry.name);
  }

  /// Runs the first implementation that takes the problem, and counts it. Autograd does not record
  /// it.
  Result run(Args... args) const {
    const at::AutoGradMode values_alone(false);
    std::string declined;
    std::size_t i = reference_only() ? entries_.size() - 1 : 0;
    for (; entries_[i].declines; ++i) {
      const std::string reason = entries_[i].declines(args...);
      if (reason.empty()) break;
      if (verbose())
        declined += concat(declined.empty() ? "" : "; ", entries_[i].name, ": ", reason);
    }
    if (verbose()) {
      std::string shapes;
      ((shapes += (shapes.empty() ? "" : ", ") + describe(args)), ...);
      report_choice(op_, shapes, entries_[i].name, declined);
    }
    count_run(keys_[i]);
    return profiling() ? profiled(i, args...) : entries_[i].run(args...);
  }

 private:
  Result profiled(std::size_t i, Args... args) const {
    Cost cost = cost_ ? cost_(args...) : Cost{};
    const bool count = cost.bytes < 0;
    if (count) cost.bytes = (bytes_of(args) + ... + 0.0);
    OperatorTimer timer;
    if constexpr (std::is_void_v<Result>) {
      entries_[i].run(args...);
      timer.finish(keys_[i], cost);
    } else {
      Result result = entries_[i].run(args...);
      timer.finish(keys_[i], {cost.flops, cost.bytes + (count ? bytes_of(result) : 0)});
      return result;
    }
  }

  std::string op_;
  std::vector<Entry> entries_;
  CostFunction cost_;
  std::vector<std::string> keys_;
};

/// The dispatcher's handle of penstock::<name>; keep it in a function-local static.
template <class Signature>
c10::TypedOperatorHandle<Signature> dispatcher_handle(const char* name) {
  const std::string full = concat("penstock::", name);
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(full.c_str(), "")
      .template typed<Signature>();
}

/// Converts std::optional to the dispatcher's optional: c10's own type before libtorch 2.6,
/// std::optional since.
inline c10::optional<at::Tensor> to_dispatcher(const std::optional<at::Tensor>& tensor) {
  return tensor ? c10::optional<at::Tensor>(*tensor) : c10::optional<at::Tensor>();
}

/// Whether autograd must record a call with these inputs.
template <class... Tensors>
bool needs_gradient(const Tensors&... tensors) {
  return at::GradMode::is_enabled() && ((tensors.defined() && tensors.requires_grad()) || ...);
}

}  // namespace penstock::ops
