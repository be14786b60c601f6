// A model's state for sequences that go on token by token: a decoder with its cache, or
// Transformer-XL with its memory.
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
  /// The sequence `row` begins anew with these tokens, one or more.
  /// @param tap  sees the pass that reads the last of them, and no other; may be null
  /// @param each  sees what follows each of the tokens, in their order; may be null
  /// @return [V] f32 on the CPU: logits, or log-probabilities, of what follows
  virtual at::Tensor begin(std::int64_t row, std::span<const TokenId> tokens,
                           const RoutingTap& tap = {}, const LogitsTap& each = {}) = 0;
  /// A further token of each of these rows, each named once.
  /// @param tap  sees every pass; may be null.  @return [R, V]
  virtual at::Tensor next(std::span<const std::int64_t> rows, std::span<const TokenId> tokens,
                          const RoutingTap& tap = {}) = 0;
};

/// A session that can undo reading.
class RewindableSession : public Session {
 public:
  /// So many further tokens of one sequence in one pass.  @return [n, V]: what follows each of
  /// them, for at most kFewTokens with the bits of one after the other (where rows_stand_alone())
  virtual at::Tensor read(std::int64_t row, std::span<const TokenId> tokens) = 0;
  /// Cuts the sequence to its first `length` tokens. REQUIRES: it has as many.
  virtual void rewind(std::int64_t row, std::int64_t length) = 0;
};

/// The largest number of tokens for which every operator gives each token the bits that it has
/// alone.
inline constexpr std::int64_t kFewTokens = 16;

struct SessionOptions {
  std::int64_t sequences = 1;
  std::int64_t capacity = 1;  ///< most tokens of one sequence
  std::uint64_t seed = 0;     ///< of routers that draw outside training too
  RoutingChoice choice = {};  ///< replaces the model's own
};

/// A decoder's session keeps keys and values and reads each token once; what it says equals the
/// whole sequence's forward pass, but for routers whose selector looks at how many tokens a pass
/// has (capacity): the prompt is one pass, each further token another. Transformer-XL's reads in
/// segments of the model's context and keeps the model's memory.
/// Throws Error for a router that is not causal.
std::unique_ptr<Session> make_session(std::shared_ptr<LanguageModel> model,
                                      const SessionOptions& options);

/// A decoder's session that can undo reading.
/// Throws Error for a router that is not causal, and for a model that keeps a memory in place of
/// keys and values.
std::unique_ptr<RewindableSession> make_rewindable_session(std::shared_ptr<LanguageModel> model,
                                                           const SessionOptions& options);

/// Whether rows that are read in one pass leave each other alone: not where a router may refuse
/// tokens, looks at their order, or draws at random.
bool rows_stand_alone(const ModelConfig& config);

}  // namespace penstock
