// Forward passes that score tokens, and which sequences may share one. The loops over corpora and
// sequences are in perplexity.h and sequences.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "penstock/models/language_model.h"

namespace penstock {

/// Whether a sequence's scores could depend on the others of its pass (capacity, expert choice,
/// draws by place): such routers get one sequence a pass where each is measured by itself.
/// @param training  whether in a training pass, where thresholds do not serve
bool reads_across_texts(const ModelConfig& config, bool training = false);

/// `items`, which are indices into `lengths`, in groups of equal length, shortest first, at most
/// `most_items` and about `most_tokens` tokens in each; the order within a length stays.
std::vector<std::vector<std::size_t>> groups_of_equal_length(std::span<const std::size_t> lengths,
                                                             std::span<const std::size_t> items,
                                                             std::int64_t most_items,
                                                             std::int64_t most_tokens);

/// The multiple of a merging router's segment that holds `length` tokens; `length` for others.
std::int64_t whole_segments(const ModelConfig& config, std::int64_t length);

/// One pass in evaluation mode over rows of equal length [B, T], without the head: hidden rows
/// [B·T, d] and the memory for the segment that follows.
/// @param whole  routers that merge experts per segment need whole ones: their rows are filled up
///               with token 0 to this length, which is at least T. What follows a token does not
///               change it, but for the filler's share in the mean of a segment that it cuts.
ModelOutput hidden_pass(LanguageModel& model, ModelInput input, std::int64_t whole,
                        const RoutingContext& context, const RoutingTap& tap = {});

struct ScoredPass {
  at::Tensor nats;     ///< [B·T] f64 on the CPU, −ln p of each target
  ModelMemory memory;  ///< for the segment that follows
};

/// The same, and the targets [B·T] i64 scored.
ScoredPass score_pass(LanguageModel& model, ModelInput input, const at::Tensor& targets,
                      std::int64_t whole, const RoutingContext& context,
                      const RoutingTap& tap = {});

}  // namespace penstock
