// The method table: every routing method of the literature as a named combination of parts.
#include "penstock/routers/methods.h"

namespace penstock {
namespace {

ConfigNode table(const std::map<std::string, ConfigNode::Value>& entries) {
  ConfigNode node;
  for (const auto& [key, value] : entries) node.set(key, value);
  return node;
}

std::string text(const char* word) { return word; }

/// HyperRouter and the methods that its paper compares it with. Softmax over the kept logits and
/// the biases follow the authors' code, which gave the published numbers. The paper writes softmax
/// before the choice (`topk.softmax = "before"`); a router then learns at k = 1 too. The schedule
/// of k is the paper's, from 2 to N, which fits any number of experts. The code's schedule starts
/// at 8 of 16.
void add_frozen_and_generated(Registry<Method>& methods) {
  ConfigNode on_schedule = table({{"softmax", text("after")}});
  on_schedule.set("schedule.kind", text("linear"));
  on_schedule.set("schedule.start", 2);
  methods.add(
      "hyperrouter",
      {.summary = "a router generated from a trained embedding; k grows from 2, set it to E",
       .source = "HyperRouter, arXiv:2312.07035, Eq. 2; authors' code",
       .scorer = "hypernetwork",
       .selector = "topk",
       .options = {{"topk", on_schedule}}});
  methods.add("smoe-dropout",
              {.summary = "a random router, never trained; k grows from 2, set it to E",
               .source = "SMoE-Dropout, arXiv:2303.01610; authors' code",
               .scorer = "random",
               .selector = "topk",
               .options = {{"topk", on_schedule}}});
  methods.add("smoe", {.summary = "a trained router with bias, the k best logits, no balancing",
                       .source = "the baseline of HyperRouter, arXiv:2312.07035; authors' code",
                       .scorer = "linear",
                       .selector = "topk",
                       .options = {{"linear", table({{"bias", true}})},
                                   {"topk", table({{"softmax", text("after")}})}}});
  methods.add("thor",
              {.summary = "one expert at random for each pass; two passes a step, which are "
                          "to agree",
               .source = "THOR, arXiv:2110.04260",
               .scorer = "none",
               .selector = "thor"});
}

void add_published_gates(Registry<Method>& methods) {
  methods.add("switch", {.summary = "the best expert, with a capacity of 1.25 even shares",
                         .source = "Switch Transformer, arXiv:2101.03961",
                         .scorer = "jitter-linear",
                         .selector = "topk-capacity",
                         .balancers = {"load-balance"},
                         .options = {{"load-balance", table({{"coefficient", 0.01}})}},
                         .k = 1});
  methods.add("gshard",
              {.summary = "the best expert and, by chance, the second; each expert has a capacity",
               .source = "GShard, arXiv:2006.16668",
               .scorer = "linear",
               .selector = "gshard",
               .balancers = {"load-balance"},
               .options = {{"load-balance", table({{"coefficient", 0.01}})}}});
  methods.add("noisy-topk",
              {.summary = "the k best logits under trained noise, importance and load evened out",
               .source = "Shazeer et al., arXiv:1701.06538",
               .scorer = "noisy-linear",
               .selector = "topk",
               .balancers = {"importance", "load"},
               .options = {{"topk", table({{"softmax", text("after")}})}}});
  methods.add("xmoe", {.summary = "the k experts at the smallest angle to the projected token",
                       .source = "X-MoE, arXiv:2204.09179",
                       .scorer = "cosine",
                       .selector = "topk",
                       .balancers = {"load-balance"},
                       .options = {{"topk", table({{"softmax", text("before")}})},
                                   {"load-balance", table({{"coefficient", 0.01}})}}});
}

/// DeepSeek-V3 also divides the gates by their sum (`topk.renormalise`), and its rate ends at 0.
/// Its code then multiplies the gates by 2.5, for which there is no option.
void add_loss_free(Registry<Method>& methods) {
  methods.add("loss-free",
              {.summary = "sigmoid gates; a bias of the choice evens the loads, no loss",
               .source = "Loss-Free Balancing, arXiv:2408.15664; DeepSeek-V3",
               .scorer = "linear",
               .selector = "topk",
               .balancers = {"loss-free"},
               .options = {{"topk", table({{"softmax", text("none")}})}}});
}

/// Router Upcycling and the methods of its section 4: softmax over all logits, the k highest gates
/// without renormalising (k = 2 there), loss coefficients 0.02 and 0.001. `switch` has the
/// coefficient of the Switch paper.
void add_upcycling(Registry<Method>& methods) {
  const auto add = [&](const std::string& name, const std::string& scorer,
                       const std::string& summary, const std::string& source,
                       const ConfigNode& scorer_options,
                       const std::vector<std::string>& balancers = {"load-balance", "z-loss"}) {
    methods.add(name, {.summary = summary,
                       .source = source,
                       .scorer = scorer,
                       .selector = "topk",
                       .balancers = balancers,
                       .options = {{scorer, scorer_options},
                                   {"topk", table({{"softmax", text("before")}})},
                                   {"load-balance", table({{"coefficient", 0.02}})},
                                   {"z-loss", table({{"coefficient", 0.001}})}}});
  };
  const ConfigNode none{ConfigNode::Table{}};
  add("vanilla", "linear", "a plain router as upcycling baselines have it, with a z-loss",
      "Sparse Upcycling, arXiv:2212.05055; the baseline of Router Upcycling", none);
  add("mlp", "mlp", "a perceptron as the router", "the MLP baseline of Router Upcycling", none);
  add("router-upcycling", "mixture",
      "several routers made of attention heads; their scores against each expert's key are summed",
      "Router Upcycling, section 3, Eq. 4-9", none);
  add("router-upcycling-max", "mixture", "the same; the highest score of any of the routers counts",
      "Router Upcycling, section 5.2.2", table({{"pool", text("max")}}));
  add("locmoe", "grouped-mean", "groups of a token's features are its logits; no parameters",
      "LocMoE, arXiv:2401.13920; dropless as in Router Upcycling", none,
      {"load-balance", "z-loss", "locality"});
}

Registry<Method> all_methods() {
  Registry<Method> methods("method");
  methods.add("dense", {.summary = "no experts: every layer has one feed-forward network",
                        .source = "the baseline of every comparison"});
  methods.add("topk", {.summary = "the k experts of highest softmax probability, dropless (dMoE)",
                       .source = "MegaBlocks, arXiv:2211.15841; balance loss arXiv:2101.03961",
                       .scorer = "linear",
                       .selector = "topk",
                       .balancers = {"load-balance"},
                       .options = {{"topk", table({{"softmax", text("before")}})},
                                   {"load-balance", table({{"coefficient", 0.01}})}}});
  methods.add("remoe", {.summary = "every expert with a positive logit, kept sparse by adaptive L1",
                        .source = "ReMoE, arXiv:2412.14711, Eq. 5-11",
                        .scorer = "linear",
                        .selector = "relu",
                        .balancers = {"adaptive-l1"},
                        .options = {{"adaptive-l1", table({{"initial", 1e-8}, {"factor", 1.2}})}}});
  methods.add("sparsemixer-v2",
              {.summary = "experts drawn one after another in training, with an estimated gradient",
               .source = "GRIN, arXiv:2409.12136; balance loss arXiv:2101.03961",
               .scorer = "linear",
               .selector = "sparsemixer-v2",
               .balancers = {"load-balance"},
               .options = {{"load-balance", table({{"coefficient", 0.01}})}}});
  methods.add("hash", {.summary = "the expert whose number is the token id mod E",
                       .source = "Hash Layers, arXiv:2106.04426",
                       .scorer = "none",
                       .selector = "hash"});
  methods.add("expert-choice", {.summary = "each expert takes its T·k/E best tokens of the batch, "
                                           "and outside training those that reach its threshold",
                                .source = "Expert Choice, arXiv:2202.09368",
                                .scorer = "linear",
                                .selector = "expert-choice",
                                .balancers = {"expert-threshold"}});
  methods.add("lory", {.summary = "expert weights blended per segment by the segment before",
                       .source = "Lory, arXiv:2405.03133",
                       .scorer = "linear",
                       .selector = "lory"});
  add_frozen_and_generated(methods);
  add_published_gates(methods);
  add_loss_free(methods);
  add_upcycling(methods);
  return methods;
}

}  // namespace

const Registry<Method>& method_registry() {
  static const Registry<Method> methods = all_methods();
  return methods;
}

}  // namespace penstock
