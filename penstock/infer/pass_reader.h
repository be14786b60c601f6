// Reads tokens of several sequences in one pass. Each sequence has a slot from its prompt to its
// end. batcher.h chooses the tokens of a pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "penstock/data/token_id.h"
#include "penstock/infer/logits_tap.h"
#include "penstock/infer/token_score.h"
#include "penstock/layers/routing_tap.h"
#include "penstock/models/language_model.h"
#include "penstock/models/routing_choice.h"

namespace penstock {

/// The next tokens of a slot's sequence.
struct PassPart {
  std::int64_t slot = 0;
  std::span<const TokenId> tokens;
  bool asks = false;    ///< logits after the last token are wanted
  LogitsTap each = {};  ///< sees the logits after each of the tokens, in their order; may be null
};

class PassReader {
 public:
  virtual ~PassReader() = default;
  /// The number of sequences at a time.
  virtual std::int64_t sequences() const = 0;
  /// Whether a prompt may be read in several parts.
  virtual bool divides_prompts() const = 0;

  struct Begun {
    std::int64_t slot = 0;
    std::int64_t reused = 0;  ///< tokens of the prompt that were read before
    /// Where scores are wanted: those of the prompt's tokens 1 to `reused`.
    std::vector<TokenScore> scores = {};
  };
  /// A slot for a sequence of up to `most` tokens that begins with this prompt; nothing where it
  /// has to wait.
  /// @param choice  with which all of it will be read: what was read with another is not reused
  /// @param seed  of routers that draw outside training too
  /// @param likeliest  number of likeliest tokens in the scores that are wanted of the prompt's
  /// tokens, or −1 for no scores. Tokens without such scores are then read again.
  virtual std::optional<Begun> begin(std::span<const TokenId> prompt, std::int64_t most,
                                     const RoutingChoice& choice, std::uint64_t seed,
                                     std::int64_t likeliest = -1) = 0;
  /// Keeps the scores of the next tokens of the slot's prompt, from token 1 on, for later prompts.
  virtual void add_scores(std::int64_t /*slot*/, std::span<const TokenScore> /*scores*/) {}
  /// Reads the parts, each of a slot of its own that began with that choice.
  /// @param tap  sees one pass, which ends with the rows of all parts one after another, but
  /// without the beginning of a part that is read in several passes; may be null
  /// @return [those that ask, V] f32 on the CPU
  virtual at::Tensor read(std::span<const PassPart> parts, const RoutingChoice& choice,
                          const RoutingTap& tap) = 0;
  /// Frees the slot.
  virtual void end(std::int64_t slot) = 0;
  /// The number of tokens kept for later prompts.
  virtual std::int64_t kept_tokens() const { return 0; }
};

struct PassReaderOptions {
  std::int64_t sequences = 16;   ///< sequences at a time
  std::int64_t kept = 16;        ///< sequences besides whose tokens are kept
  std::int64_t capacity = 4096;  ///< most tokens of a sequence
};

/// Of a decoder whose tokens leave each other alone (rows_stand_alone): one that reads all parts in
/// one pass and keeps what was read; each token's logits are those of reading its sequence token by
/// token, bit for bit, whatever else the pass reads (ops/rows_alone.h says where). Of any other
/// model: one slot, whose sequences are read as make_session() does.
/// Throws Error for a router that is not causal.
std::unique_ptr<PassReader> make_pass_reader(std::shared_ptr<LanguageModel> model,
                                             const PassReaderOptions& options);

/// The reason why a model's texts are generated one at a time, or "".
std::string one_at_a_time(const LanguageModel& model);

}  // namespace penstock
