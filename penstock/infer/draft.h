// Speculative decoding: a small model proposes tokens, which the large one reads in one pass and
// takes as far as it would have chosen them itself.
#pragma once

#include <memory>
#include <vector>

#include "penstock/infer/session.h"
#include "penstock/infer/writing.h"

namespace penstock {

/// The small model, reading along with one text.
class Draft {
 public:
  /// REQUIRES: check_draft(). `capacity`: most tokens of a text.
  Draft(const Job& job, std::int64_t capacity);
  /// Another text begins.
  void begin(const Writing& text);
  /// Up to `count` tokens to follow the text: chosen by this model's logits, each by the draw with
  /// which the large model will choose. Fewer where the text outgrows this model's context.
  std::vector<TokenId> propose(const Writing& text, std::int64_t count);

 private:
  const Job& job_;
  std::unique_ptr<RewindableSession> session_;
  std::int64_t most_;          ///< tokens that the model reads of a text
  std::vector<TokenId> read_;  ///< and those it has read
};

/// Writes a text with the help of a draft; false where the listener wants no more.
/// The n-th token is a function of the model's logits before it and of draw n alone (sampler.h),
/// and up to kFewTokens logits are the same bits in one pass: the text is that without a draft,
/// whatever the draft proposes. (Leviathan et al., arXiv:2211.17192, keep the distribution by
/// rejection; here both models choose with the same draw and the text itself is kept. Where
/// temperature is 0 both are the same.)
bool write_drafted(RewindableSession& session, Draft& draft, Writing& text, const Job& job,
                   GenerationSpeed& speed);

}  // namespace penstock
