// The method table: every routing method of the literature as a named combination of parts.
#include "penstock/routers/router.h"

namespace penstock {
namespace {

ConfigNode table(const std::map<std::string, ConfigNode::Value>& entries) {
  ConfigNode node;
  for (const auto& [key, value] : entries) node.set(key, ConfigNode(value));
  return node;
}

std::string text(const char* word) { return word; }

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
  methods.add("hash", {.summary = "the expert whose number is the token id mod E",
                       .source = "Hash Layers, arXiv:2106.04426",
                       .scorer = "none",
                       .selector = "hash"});
  methods.add("expert-choice", {.summary = "each expert takes its T·k/E best tokens of the batch",
                                .source = "Expert Choice, arXiv:2202.09368",
                                .scorer = "linear",
                                .selector = "expert-choice"});
  methods.add("lory", {.summary = "expert weights blended per segment by the segment before",
                       .source = "Lory, arXiv:2405.03133",
                       .scorer = "linear",
                       .selector = "lory"});
  return methods;
}

}  // namespace

const Registry<Method>& method_registry() {
  static const Registry<Method> methods = all_methods();
  return methods;
}

}  // namespace penstock
