// The experts' shares of the assignments, which balance losses use as constants, and the scope that
// the shares are counted over.
#pragma once

#include <array>
#include <string_view>

#include "penstock/base/fields.h"
#include "penstock/routers/routing.h"
#include "penstock/routers/traits.h"

namespace penstock {

enum class Scope { micro_batch, sequence, global, device };
constexpr std::array<std::string_view, 4> words(Scope) {
  return {"micro-batch", "sequence", "global", "device"};
}

/// The scope in which a balance loss counts the experts' loads. A struct with such a member lists
/// these keys among its own.
struct LoadScope {
  Scope scope = Scope::micro_batch;
  std::int64_t devices = 0;

  template <class V>
  void visit(V& v) {
    v("scope", scope,
      {.help = "loads are counted over: micro-batch; sequence, each by itself; global, all "
               "micro-batches of the step, which takes another forward pass of each where there "
               "are several; device, a micro-batch, groups of experts together"});
    v("devices", devices,
      {.help = "scope = device: so many groups of consecutive experts, E/devices each", .min = 0});
  }
  void refine(BalancerTraits& traits) const {
    traits.by_sequence = scope == Scope::sequence;
    traits.pools_step = scope == Scope::global;
  }
  /// Throws Error, opened by the part's name, where devices do not go with the scope or with E.
  void check(const std::string& part, std::int64_t experts) const;
  /// G, groups of consecutive tokens that are counted by themselves: sequences, or 1 for all.
  std::int64_t groups(const Plan& plan, const RoutingContext& context) const;
};

/// A pass's choices, [E + 1] f64 on the CPU: the choices of each expert before any refusal, and the
/// number of tokens. REQUIRES: the plan does not merge.
at::Tensor requested_of_experts(const Plan& plan);

/// f_ge = E·c_ge / (k·T_g), 1 for every expert in perfect balance at k active experts; 0 without
/// tokens. Where the plan has a demand, c is that, and k·T its sum.
///   global: c and T of the whole step, by context.reduce;  device: the mean of f over e's device,
///   so that Σ_e f_e·P_e is DeepSeekMoE's Σ_i f'_i·P'_i over devices (arXiv:2401.06066, Eq. 15-17)
/// @param plan  not merging; without a demand where the scope is sequence
/// @return [G, E] f64 without gradient, on the CPU but for the scope sequence.
at::Tensor load_fraction(const Plan& plan, const LoadScope& scope, const RoutingContext& context);

}  // namespace penstock
