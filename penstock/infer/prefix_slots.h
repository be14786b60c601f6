// Prefix reuse: the tokens in each slot of a cache, so that a prompt can reuse a prefix that it
// shares with one of them. decoder_cache.h has the keys and values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "penstock/data/token_id.h"
#include "penstock/infer/token_score.h"
#include "penstock/models/routing_choice.h"

namespace penstock {

/// A fixed number of slots. A slot in use grows. A free slot keeps its tokens until another
/// sequence needs it; the least recently used free slot is taken first.
class PrefixSlots {
 public:
  explicit PrefixSlots(std::int64_t slots);

  struct Taken {
    std::int64_t slot = 0;
    std::int64_t reused = 0;  ///< first tokens of the prompt that need not be read again
    std::int64_t from = 0;    ///< slot to copy them from; `slot` itself if there is nothing to copy
  };
  /// Takes a slot for a sequence that begins with this prompt. It reuses the longest prefix that
  /// any slot has, without the prompt's last token. A free slot whose tokens are all in the prefix
  /// is itself taken; otherwise the caller copies the prefix. Nothing if all slots are in use, or
  /// if it is better to wait because a sequence in use will read a longer shared prefix. REQUIRES:
  /// the prompt has a token.
  /// @param choice  tokens that were read with another choice are not reused
  /// @param likeliest  number of likeliest tokens in the scores that the prompt's tokens will have,
  /// or −1 for no scores. With scores, only tokens whose scores have at least as many likeliest
  /// tokens are reused, and scores(slot) are then those of tokens 1 to `reused`.
  std::optional<Taken> take(std::span<const TokenId> prompt, const RoutingChoice& choice = {},
                            std::int64_t likeliest = -1);
  /// Appends tokens that were read. REQUIRES: the slot is in use.
  void add(std::int64_t slot, std::span<const TokenId> tokens);
  /// Appends the scores of the next tokens. REQUIRES: the slot was taken with scores.
  void add_scores(std::int64_t slot, std::span<const TokenScore> scores);
  /// Frees the slot, which keeps its tokens.
  void release(std::int64_t slot);

  std::int64_t in_use() const;
  /// The number of tokens in free slots.
  std::int64_t kept_tokens() const;
  std::span<const TokenId> tokens(std::int64_t slot) const { return at(slot).tokens; }
  /// The scores of the slot's tokens 1, 2, ..., as far as it has them.
  std::span<const TokenScore> scores(std::int64_t slot) const { return at(slot).scores; }

 private:
  struct Slot {
    std::vector<TokenId> tokens;   // read so far
    std::vector<TokenId> planned;  // the prompt until it is read
    std::vector<TokenScore> scores;
    std::int64_t likeliest = -1;  // in each score; −1: no scores
    bool scoring = false;         // the planned tokens will have scores
    bool used = false;
    RoutingChoice choice;
    std::uint64_t last_use = 0;
  };
  Slot& at(std::int64_t slot) { return slots_.at(static_cast<std::size_t>(slot)); }
  const Slot& at(std::int64_t slot) const { return slots_.at(static_cast<std::size_t>(slot)); }
  /// The number of the prompt's first tokens that can be reused from the slot.
  static std::int64_t reusable(const Slot& slot, std::span<const TokenId> prompt,
                               std::int64_t likeliest);
  /// The least recently used free slot other than `source`; −1 if there is none.
  std::int64_t oldest_besides(std::int64_t source) const;

  std::vector<Slot> slots_;
  std::uint64_t clock_ = 0;
};

}  // namespace penstock
