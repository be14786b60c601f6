// A model's state for sequences that are read token by token: a decoder's cache or Transformer-XL's
// memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>

#include "penstock/data/token_id.h"
#include "penstock/infer/logits_tap.h"
#include "penstock/layers/routing_tap.h"
#include "penstock/models/language_model.h"
#include "penstock/models/routing_choice.h"

namespace penstock {

class Session {
 public:
  virtual ~Session() = default;
  /// Clears the sequence `row` and reads these tokens, one or more.
  /// @param tap  observes only the pass that reads the last of them; may be null
  /// @param each  receives the logits after each token, in order; may be null
  /// @return [V] f32 on the CPU: logits, or log-probabilities, of the next token
  virtual at::Tensor begin(std::int64_t row, std::span<const TokenId> tokens,
                           const RoutingTap& tap = {}, const LogitsTap& each = {}) = 0;
  /// Reads one more token of each of these rows, [R] different ones.
  /// @param tap  observes every pass; may be null.  @return [R, V]
  virtual at::Tensor next(std::span<const std::int64_t> rows, std::span<const TokenId> tokens,
                          const RoutingTap& tap = {}) = 0;
};

/// A session that can undo reading.
class RewindableSession : public Session {
 public:
  /// Reads n more tokens of one sequence in one pass.  @return [n, V]: the logits after each of
  /// them. If n ≤ kFewTokens and rows_stand_alone(), they have the same bits as token by token.
  virtual at::Tensor read(std::int64_t row, std::span<const TokenId> tokens) = 0;
  /// Cuts the sequence to its first `length` tokens. REQUIRES: it has at least as many.
  virtual void rewind(std::int64_t row, std::int64_t length) = 0;
};

/// The largest number of tokens in a pass for which every operator gives each token the same bits
/// as alone.
inline constexpr std::int64_t kFewTokens = 16;

struct SessionOptions {
  std::int64_t sequences = 1;
  std::int64_t capacity = 1;  ///< largest number of tokens of one sequence
  std::uint64_t seed = 0;     ///< for routers that also draw at random outside training
  RoutingChoice choice = {};  ///< replaces the model's own
};

/// A decoder's session keeps keys and values and reads each token once. Its logits equal those of
/// one forward pass over the whole sequence, except for selectors that depend on the number of
/// tokens in a pass (capacity): the prompt is one pass and each further token another.
/// Transformer-XL's session reads segments of the model's context and keeps the model's memory.
/// Throws Error for a router that is not causal.
std::unique_ptr<Session> make_session(std::shared_ptr<LanguageModel> model,
                                      const SessionOptions& options);

/// A decoder's session that can undo reading.
/// Throws Error for a router that is not causal, and for a model that keeps a memory in place of
/// keys and values.
std::unique_ptr<RewindableSession> make_rewindable_session(std::shared_ptr<LanguageModel> model,
                                                           const SessionOptions& options);

/// Whether a token's routing is independent of the other tokens in a pass: false for a router that
/// can drop tokens, depends on their order, or draws at random.
bool rows_stand_alone(const ModelConfig& config);

}  // namespace penstock
