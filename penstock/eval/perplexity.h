// Loss, perplexity and bits per byte of a model over a split, whole and by domain, with the routing
// seen on the way. Measurement only: nothing is trained or written.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "penstock/data/corpus/batches.h"
#include "penstock/models/language_model.h"

namespace penstock {

/// Sums over scored targets; means come from the methods.
struct LossTotals {
  double nats = 0;
  std::int64_t tokens = 0;       ///< targets scored
  std::int64_t bytes = 0;        ///< bytes of text that the targets stand for
  double loss() const;           ///< nats per token
  double perplexity() const;     ///< exp(loss)
  double bits_per_byte() const;  ///< nats / ln 2 / bytes
};

/// Assignments counted per MoE layer and expert.
struct RoutingTotals {
  std::int64_t tokens = 0;
  std::vector<std::vector<double>> assignments;  ///< [L][E]
};

struct Evaluation {
  LossTotals total;
  std::map<std::string, LossTotals> by_domain;
  RoutingTotals routing;
  std::map<std::string, RoutingTotals> routing_by_domain;
};

struct EvaluateOptions {
  Split split = Split::kValidation;
  std::int64_t sequence_length = 256;
  std::int64_t batch_sequences = 16;
  std::int64_t max_tokens = 0;  ///< evenly spaced windows up to this many; 0: the whole split
  bool isolate_documents = false;
  /// 0: windows, nothing carried between them. Otherwise the split is cut into so many streams and
  /// the model's memory is carried along each; `batch_sequences` of them are read side by side,
  /// which changes what is measured only where a token's plan depends on the others of its pass
  /// (capacity, expert choice) or on its place in it (THOR).
  std::int64_t streams = 0;
  std::int64_t memory_length = -1;  ///< positions carried; -1: the model's
  RoutingContext context;           ///< step and total_steps, for selectors with a schedule
  /// Sees every layer's result too, where set. (A merging router's shorter windows are filled up.)
  RoutingTap routing_tap;
  /// Sees each batch after its layers, with −ln p of its targets [sequences · length], where set.
  std::function<void(const Batch& batch, std::span<const double> nats)> batch_tap;
  std::function<void(double done, const LossTotals& sofar)> progress;
};

/// Scores every target of the split once, each with the context of its window and of the memory
/// carried to it. (Streams leave out less than `streams` targets at the split's end.)
/// Puts the model into evaluation mode and back.
Evaluation evaluate(LanguageModel& model, const Corpus& corpus, const EvaluateOptions& options);

/// {"loss", "perplexity", "bits_per_byte", "tokens", "by_domain", and for MoE "load",
/// "load_by_domain", "active_by_layer", "active_by_layer_domain"}. Load is assignments per token.
nlohmann::ordered_json to_json(const Evaluation& evaluation);

}  // namespace penstock
