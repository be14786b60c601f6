// Hash routing: the token's id decides its expert. Nothing is trained.
#include <torch/types.h>

#include "penstock/base/error.h"
#include "penstock/routers/registry.h"

namespace penstock::hash {

struct Config {
  template <class V>
  void visit(V&) {}
};

/// expert = token id mod E, weight 1. The modulus is ReMoE's (arXiv:2412.14711, section 4.2). Hash
/// Layers draws a table of experts at random, or evens it out by the tokens' frequencies.
class Hash : public Selector {
 public:
  Hash(const RouterShape&, const Config&) {}

  Plan select(const Scores& scores, const RoutingContext& context) override {
    const at::Tensor& logits = scores.logits;  // [T, E]
    PENSTOCK_CHECK(context.token_ids.defined(), "[hash] routes by token ids; give token_ids");
    PENSTOCK_CHECK(context.token_ids.numel() == logits.size(0), "[hash] ",
                   context.token_ids.numel(), " token ids for ", logits.size(0), " tokens");
    const at::Tensor expert =
        context.token_ids.flatten().to(logits.device()).remainder(logits.size(1));
    const at::Tensor mask = at::zeros(logits.sizes(), logits.options().dtype(at::kBool));
    mask.scatter_(1, expert.unsqueeze(1), true);
    return make_plan(at::ones_like(logits), mask);
  }
  double nominal_k(const RoutingContext&) const override { return 1; }
};

static const RegisterSelector<Hash, Config> registered{
    "hash",
    "one expert per token: its id mod E, weight 1",
    "Hash Layers, arXiv:2106.04426",
    {.needs_token_ids = true, .trainable = false, .ignores_logits = true, .unit_gates = true}};

}  // namespace penstock::hash
