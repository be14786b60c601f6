#include "penstock/analysis/measures.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <span>

#include "penstock/analysis/domain_routing.h"
#include "penstock/analysis/refusals.h"
#include "penstock/analysis/similarity.h"
#include "penstock/eval/passes.h"
#include "penstock/eval/perplexity.h"
#include "penstock/layers/all_outputs.h"

namespace penstock::analysis {
namespace {

ExpertSimilarity similarity_of(MoeLayer& layer, std::int64_t experts, const at::Tensor& hidden) {
  torch::NoGradGuard no_grad;
  const at::Tensor outputs = all_outputs(layer.experts(), experts, hidden);
  return {.output_cosine = off_diagonal_mean(output_cosines(outputs)),
          .output_cka = off_diagonal_mean(linear_cka(outputs)),
          .weight_cosine = off_diagonal_mean(row_cosines(parameter_rows(layer.experts())))};
}

/// The entropies of the segments that hold tokens. evaluate() pads windows of a merging router to
/// whole segments, so a short window may end with segments of padding alone.
/// @param entropies [B·segments], of the batch's rows in order
at::Tensor of_text(const at::Tensor& entropies, const Batch& batch, const ModelConfig& config) {
  const std::int64_t segments =
      whole_segments(config, batch.length) / config.traits().segment_length;
  return entropies.view({batch.sequences, -1}).narrow(1, 0, segments);
}

/// The counts by token id and by frequency.
struct TokenCounts {
  TokenCounts(const ModelConfig& config, const Corpus& corpus)
      : frequency(corpus_frequencies(corpus), config.moe_layers()),
        tokens(config, [this](const TokenPlace& place) { frequency.add(place); }) {}
  FrequencyCounter frequency;
  TokenCounter tokens;
};

/// Measures each layer's load and its experts' similarity on the probe, and folds its router.
void measure_layers(LanguageModel& model, const Evaluation& evaluation, bool loads,
                    ModelMeasures& out) {
  const std::vector<MoeLayer*>& layers = model.moe_layers();
  const bool folds = model.traits().foldable;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    LayerMeasures& layer = out.layers[l];
    if (loads)
      layer.load = expert_load(evaluation.routing.assignments.at(l), evaluation.routing.tokens);
    layer.similarity =
        similarity_of(*layers[l], model.config().total_experts(), out.probe.layers[l].hidden);
    if (!folds) continue;
    const FoldedScorer folded = layers[l]->router().scorer().fold();
    layer.router = folded.weight.detach().to(at::kCPU, at::kDouble);
    if (folded.bias.defined()) layer.router_bias = folded.bias.detach().to(at::kCPU, at::kDouble);
  }
}

void measure_gradients(LanguageModel& model, const Corpus& corpus, const MeasureOptions& options,
                       ModelMeasures& out) {
  const auto gradients = router_gradients(model, corpus,
                                          {.split = options.reading.split,
                                           .tokens = options.gradient_tokens,
                                           .sequence_length = options.reading.sequence_length,
                                           .step = options.step,
                                           .total_steps = options.total_steps});
  for (std::size_t l = 0; l < out.layers.size(); ++l) out.layers[l].gradient = gradients[l];
}

}  // namespace

ModelMeasures measure(LanguageModel& model, const Corpus& corpus, const MeasureOptions& options) {
  const ModelConfig& config = model.config();
  const Refusals refused = refusals(config);
  ModelMeasures out;
  out.layers.resize(static_cast<std::size_t>(config.moe_layers()));
  if (refused.entropy.empty())
    for (LayerMeasures& layer : out.layers) layer.entropy.emplace();
  std::optional<TokenCounts> counts;
  if (options.by_token && refused.load.empty()) counts.emplace(config, corpus);
  std::vector<at::Tensor> entropies(out.layers.size());  // of the current batch
  EvaluateOptions reading = options.reading;
  reading.routing_tap = [&](std::int64_t index, const RoutingResult& result) {
    const auto l = static_cast<std::size_t>(index);
    if (out.layers[l].entropy) entropies[l] = router_entropies(result.scores.logits);
    if (counts) counts->tokens.routed(index, result.plan);
  };
  reading.batch_tap = [&](const Batch& batch, std::span<const double> nats) {
    for (std::size_t l = 0; l < entropies.size(); ++l)
      if (out.layers[l].entropy) out.layers[l].entropy->add(of_text(entropies[l], batch, config));
    if (counts) counts->tokens.scored(batch, nats);
  };
  const Evaluation evaluation = evaluate(model, corpus, reading);
  out.loss = evaluation.total.loss();
  out.tokens = evaluation.total.tokens;
  if (refused.load.empty()) out.domains = domain_routing(evaluation);
  if (counts) {
    out.by_token = counts->tokens.counted();
    out.by_frequency = counts->frequency.report();
  }
  out.probe = probe(model, corpus,
                    {.split = options.reading.split,
                     .tokens = options.probe_tokens,
                     .sequence_length = options.reading.sequence_length});
  measure_layers(model, evaluation, refused.load.empty(), out);
  if (options.gradient_tokens > 0 && refused.gradient.empty())
    measure_gradients(model, corpus, options, out);
  return out;
}

}  // namespace penstock::analysis
