// The experts' share of the assignments, which balance losses use as a constant.
#pragma once

#include <array>
#include <string_view>

#include "penstock/routers/routing.h"

namespace penstock {

enum class Scope { micro_batch, global };
constexpr std::array<std::string_view, 2> words(Scope) { return {"micro-batch", "global"}; }

inline constexpr std::string_view kScopeHelp =
    "counts are taken over: micro-batch, or global (the same pass on all ranks; penstock train "
    "takes "
    "this only where a step is one micro-batch, and so one process)";

/// f_e = E·c_e / (k·T), 1 for every expert in perfect balance at k active experts; 0 without
/// tokens. Where the plan has a demand, c is that, and k·T its sum.
/// @param plan   not merging
/// @param scope  global sums c and T over ranks by context.reduce where there is one
/// @return [E] f64 on the CPU, without gradient.
at::Tensor load_fraction(const Plan& plan, Scope scope, const RoutingContext& context);

}  // namespace penstock
