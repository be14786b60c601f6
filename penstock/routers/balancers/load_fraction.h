// The experts' shares of the assignments, which balance losses use as constants, and the scope over
// which assignments are counted.
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

/// The scope over which a balance loss counts the experts' loads. A config with this member lists
/// these keys among its own.
struct LoadScope {
  Scope scope = Scope::micro_batch;
  std::int64_t devices = 0;

  template <class V>
  void visit(V& v) {
    v("scope", scope,
      {.help = "tokens over which loads are counted. micro-batch; sequence: each sequence "
               "separately; global: all micro-batches of the step, which costs one more forward "
               "pass of each if there are several; device: a micro-batch, with the loads of a "
               "group of experts averaged"});
    v("devices", devices,
      {.help = "scope = device: number of groups of consecutive experts, E/devices experts each",
       .min = 0});
  }
  void refine(BalancerTraits& traits) const {
    traits.by_sequence = scope == Scope::sequence;
    traits.pools_step = scope == Scope::global;
  }
  /// Throws Error if `devices` does not fit the scope or does not divide E. The error begins with
  /// the part's key.
  void check(const std::string& part, std::int64_t experts) const;
  /// G, the number of groups of consecutive tokens with counts of their own: the number of
  /// sequences, or 1 for all tokens together.
  std::int64_t groups(const Plan& plan, const RoutingContext& context) const;
};

/// The counts of a pass, [E + 1] f64 on the CPU: the choices of each expert before any refusal,
/// then the number of tokens. REQUIRES: the plan does not merge.
at::Tensor requested_of_experts(const Plan& plan);

/// f_ge = E·c_ge / (k·T_g).  f is 1 for every expert in perfect balance at k active experts, and 0
/// without tokens. If the plan has a demand, c is the demand and k·T is its sum.
///   global: c and T are those of the whole step, from context.reduce
///   device: f is averaged over the experts of e's device, so that Σ_e f_e·P_e is DeepSeekMoE's
///           Σ_i f'_i·P'_i over devices (arXiv:2401.06066, Eq. 15-17)
/// @return [G, E] f64 without gradient, on the CPU unless the scope is sequence.
/// REQUIRES: the plan does not merge, and has no demand if the scope is sequence.
at::Tensor load_fraction(const Plan& plan, const LoadScope& scope, const RoutingContext& context);

}  // namespace penstock
