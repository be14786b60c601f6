// The default functions of parts.
#include "penstock/routers/parts.h"

#include "penstock/base/error.h"

namespace penstock {

FoldedScorer Scorer::fold() const {
  PENSTOCK_ASSERT(false, "this scorer does not fold");
  return {};
}

bool Scorer::scale_logits(double) { return false; }

void Scorer::share(Scorer&) {}

ScorerParameters Scorer::parameters_by_part() const {
  ScorerParameters out;
  for (const at::Tensor& parameter : parameters()) out.router += parameter.numel();
  return out;
}

std::set<std::string> Scorer::rows_by_expert() const { return {}; }

at::Tensor Selector::rows(const at::Tensor& hidden, const RoutingContext&) { return hidden; }
bool Selector::refuses_none() const { return true; }

}  // namespace penstock
