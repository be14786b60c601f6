// Evaluates a model on a split: loss, perplexity and bits per byte, in total and by domain, and the
// experts' load. It trains and writes nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "penstock/data/corpus/batches.h"
#include "penstock/models/language_model.h"

namespace penstock {

/// Sums over scored targets. The methods return means.
struct LossTotals {
  double nats = 0;
  std::int64_t tokens = 0;       ///< number of scored targets
  std::int64_t bytes = 0;        ///< bytes of the targets' text
  double loss() const;           ///< nats per token
  double perplexity() const;     ///< exp(loss)
  double bits_per_byte() const;  ///< nats / ln 2 / bytes
};

/// Numbers of assignments by MoE layer and expert.
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
  /// 0: the split is read in windows without memory between them. Above 0: the split is cut into
  /// this number of streams, and each stream carries the model's memory from segment to segment.
  /// `batch_sequences` streams are read in one pass. That number changes the results only if a
  /// token's plan depends on the other tokens of its pass (capacity, expert choice) or on its
  /// position in the pass (THOR).
  std::int64_t streams = 0;
  std::int64_t memory_length = -1;  ///< positions in the memory; -1: the model's number
  RoutingContext context;           ///< step and total_steps, for selectors with a schedule
  /// Called with every layer's result; may be empty. A merging router's shorter windows are padded.
  RoutingTap routing_tap;
  /// Called after each batch's forward pass with the batch and −ln p of its targets
  /// [sequences · length]; may be empty.
  std::function<void(const Batch& batch, std::span<const double> nats)> batch_tap;
  std::function<void(double done, const LossTotals& sofar)> progress;
};

/// The batches that an evaluation scores, in order: windows, or streams if options.streams > 0.
class EvaluationBatches {
 public:
  /// Throws Error if the split is too short, or if documents are to be isolated along streams.
  EvaluationBatches(const Corpus& corpus, const EvaluateOptions& options);
  std::int64_t size() const;
  Batch at(std::int64_t index) const;

 private:
  std::optional<EvaluationStreams> streams_;
  std::optional<EvaluationWindows> windows_;
};

/// Scores every target of the split once. A target's context is its window, and with streams also
/// the memory. Streams leave out fewer than `streams` targets at the split's end. The model is in
/// evaluation mode during the call.
Evaluation evaluate(LanguageModel& model, const Corpus& corpus, const EvaluateOptions& options);

/// {"loss", "perplexity", "bits_per_byte", "tokens", "by_domain", and for MoE "load",
/// "load_by_domain", "active_by_layer", "active_by_layer_domain"}. The load is the
/// number of assignments per token.
nlohmann::ordered_json to_json(const Evaluation& evaluation);

}  // namespace penstock
