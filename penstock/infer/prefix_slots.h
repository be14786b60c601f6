// The sequences in a cache, for prompts that share a beginning with one of them. This is the
// bookkeeping; decoder_cache.h has the keys and values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "penstock/data/token_id.h"
#include "penstock/infer/token_score.h"
#include "penstock/models/routing_choice.h"

namespace penstock {

/// A fixed number of slots. One that is in use grows; one that is not keeps its tokens until
/// another text needs the room, the longest unused first.
class PrefixSlots {
 public:
  explicit PrefixSlots(std::int64_t slots);

  struct Taken {
    std::int64_t slot = 0;
    std::int64_t reused = 0;  ///< tokens of the prompt that need not be read again
    std::int64_t from = 0;    ///< slot that has them; `slot` itself where nothing is to be copied
  };
  /// A slot for a sequence that begins with this prompt, with the longest beginning of it that any
  /// slot has read, but for its last token. A slot whose tokens all are the prompt's beginning goes
  /// on itself; elsewhere they are copied. Nothing where all slots are in use, and where it is
  /// worth waiting: a sequence in use is yet to read more of the same beginning. REQUIRES: the
  /// prompt has a token.
  /// @param choice  what was read with another is of no use
  /// @param likeliest  number of likeliest tokens in the scores that the prompt's tokens will have,
  /// or −1 for no scores. For scores, the slot reuses only tokens whose scores have at least as
  /// many likeliest tokens, and its scores() are then those of tokens 1 to `reused`.
  std::optional<Taken> take(std::span<const TokenId> prompt, const RoutingChoice& choice = {},
                            std::int64_t likeliest = -1);
  /// These were read behind what the slot has. REQUIRES: it is in use.
  void add(std::int64_t slot, std::span<const TokenId> tokens);
  /// These are the scores of the slot's next tokens. REQUIRES: it was taken for scores.
  void add_scores(std::int64_t slot, std::span<const TokenScore> scores);
  /// Ends the use of the slot, which keeps its tokens.
  void release(std::int64_t slot);

  std::int64_t in_use() const;
  /// The number of tokens in slots that are not in use.
  std::int64_t kept_tokens() const;
  std::span<const TokenId> tokens(std::int64_t slot) const { return at(slot).tokens; }
  /// The scores of the slot's tokens 1, 2, ..., as far as it has them.
  std::span<const TokenScore> scores(std::int64_t slot) const { return at(slot).scores; }

 private:
  struct Slot {
    std::vector<TokenId> tokens;   // that were read
    std::vector<TokenId> planned;  // the prompt, while it is not yet read
    std::vector<TokenScore> scores;
    std::int64_t likeliest = -1;  // in each score; −1: no scores
    bool scoring = false;         // the planned tokens will have scores
    bool used = false;
    RoutingChoice choice;
    std::uint64_t last_use = 0;
  };
  Slot& at(std::int64_t slot) { return slots_.at(static_cast<std::size_t>(slot)); }
  const Slot& at(std::int64_t slot) const { return slots_.at(static_cast<std::size_t>(slot)); }
  /// The number of the prompt's first tokens that a sequence can take over from the slot.
  static std::int64_t reusable(const Slot& slot, std::span<const TokenId> prompt,
                               std::int64_t likeliest);
  /// The slot not in use that is given up first, but for `source`; −1: none.
  std::int64_t oldest_besides(std::int64_t source) const;

  std::vector<Slot> slots_;
  std::uint64_t clock_ = 0;
};

}  // namespace penstock
