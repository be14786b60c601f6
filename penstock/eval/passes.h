// Forward passes that score tokens, and the rules for sequences that share a pass. The loops over
// corpora and sequences are in perplexity.h and sequences.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "penstock/models/language_model.h"

namespace penstock {

/// Whether a sequence's scores can depend on the other sequences in its pass (by capacity, expert
/// choice or random draws per position). If so, each sequence that is measured separately needs its
/// own pass.
/// @param training  whether the pass trains; training does not use experts' thresholds
bool reads_across_texts(const ModelConfig& config, bool training = false);

/// Splits `items`, which are indices into `lengths`, into groups of equal length, shortest first. A
/// group has at most `most_items` items and `most_tokens` tokens, but at least one item. Items of
/// equal length keep their order.
std::vector<std::vector<std::size_t>> groups_of_equal_length(std::span<const std::size_t> lengths,
                                                             std::span<const std::size_t> items,
                                                             std::int64_t most_items,
                                                             std::int64_t most_tokens);

/// `length` rounded up to whole segments of a merging router; `length` itself for other routers.
std::int64_t whole_segments(const ModelConfig& config, std::int64_t length);

/// One pass in evaluation mode over rows of equal length [B, T], without the head. Returns hidden
/// rows [B·T, d] and the memory for the next segment.
/// @param whole  the length, at least T, to which rows are padded with token 0 for routers that
///               merge experts per segment. Padding changes no token's result: these routers leave
///               it out of a segment's mean (RoutingContext::unpadded_length).
ModelOutput hidden_pass(LanguageModel& model, ModelInput input, std::int64_t whole,
                        const RoutingContext& context, const RoutingTap& tap = {});

struct ScoredPass {
  at::Tensor nats;     ///< [B·T] f64 on the CPU, −ln p of each target
  ModelMemory memory;  ///< for the next segment
};

/// Runs hidden_pass() and scores the targets [B·T] i64.
ScoredPass score_pass(LanguageModel& model, ModelInput input, const at::Tensor& targets,
                      std::int64_t whole, const RoutingContext& context,
                      const RoutingTap& tap = {});

}  // namespace penstock
