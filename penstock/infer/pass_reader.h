// Reads tokens of several sequences in one forward pass. Each sequence keeps a slot until its end.
// batcher.h chooses the tokens of a pass.
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
  bool asks = false;    ///< read() returns the logits after the last token
  LogitsTap each = {};  ///< receives the logits after each token, in order; may be null
};

class PassReader {
 public:
  virtual ~PassReader() = default;
  /// The largest number of sequences at a time.
  virtual std::int64_t sequences() const = 0;
  /// Whether a prompt may be read in several parts.
  virtual bool divides_prompts() const = 0;

  struct Begun {
    std::int64_t slot = 0;
    std::int64_t reused = 0;  ///< first tokens of the prompt that need not be read again
    /// Scores of the prompt's tokens 1 to `reused`; empty unless scores are requested.
    std::vector<TokenScore> scores = {};
  };
  /// Takes a slot for a sequence of up to `most` tokens that begins with this prompt; nothing if
  /// the sequence has to wait.
  /// @param choice  for the whole sequence; tokens read with another choice are not reused
  /// @param seed  for routers that also draw at random outside training
  /// @param likeliest  number of likeliest tokens in the requested scores of the prompt's tokens,
  /// or −1 for no scores. Tokens without such scores are read again.
  virtual std::optional<Begun> begin(std::span<const TokenId> prompt, std::int64_t most,
                                     const RoutingChoice& choice, std::uint64_t seed,
                                     std::int64_t likeliest = -1) = 0;
  /// Keeps scores of the slot's prompt for later prompts: those that follow the scores kept so far.
  /// The first score is of token 1.
  virtual void add_scores(std::int64_t /*slot*/, std::span<const TokenScore> /*scores*/) {}
  /// Reads the parts. REQUIRES: each has a slot of its own, begun with `choice`.
  /// @param tap  observes one pass, which ends with the rows of all parts in order; if a part takes
  /// several passes, only the last of them. May be null.
  /// @return [parts that ask, V] f32 on the CPU; unspecified if none asks
  virtual at::Tensor read(std::span<const PassPart> parts, const RoutingChoice& choice,
                          const RoutingTap& tap) = 0;
  /// Frees the slot.
  virtual void end(std::int64_t slot) = 0;
  /// The number of tokens of ended sequences that later prompts can reuse.
  virtual std::int64_t kept_tokens() const { return 0; }
};

struct PassReaderOptions {
  std::int64_t sequences = 16;   ///< sequences at a time
  std::int64_t kept = 16;        ///< additional slots, which keep ended sequences
  std::int64_t capacity = 4096;  ///< largest number of tokens of a sequence
};

/// Makes the reader that fits the model. If one_at_a_time() is "", the reader reads all parts in
/// one pass and keeps a cache of what was read. Each token's logits are, bit for bit, those of
/// reading its sequence token by token (on the devices and types of ops/rows_alone.h). For other
/// models, the reader has one slot and reads its sequence by make_session().
/// Throws Error for a router that is not causal.
std::unique_ptr<PassReader> make_pass_reader(std::shared_ptr<LanguageModel> model,
                                             const PassReaderOptions& options);

/// The reason why a model's texts can only be generated one at a time, or "": it has no cache, or
/// not rows_stand_alone().
std::string one_at_a_time(const LanguageModel& model);

}  // namespace penstock
