// Speculative decoding: a small model proposes tokens. The large model reads them in one pass and
// accepts those that it chooses itself, up to the first that differs.
#pragma once

#include <memory>
#include <vector>

#include "penstock/infer/generated_text.h"
#include "penstock/infer/session.h"

namespace penstock {

/// The small model, which reads the same text.
class Draft {
 public:
  /// REQUIRES: check_draft(). `capacity`: most tokens of a text.
  Draft(const Job& job, std::int64_t capacity);
  /// Begins another text.
  void begin(const GeneratedText& text);
  /// Up to `count` tokens to follow the text: chosen by this model's logits, each by the draw with
  /// which the large model will choose. Fewer where the text outgrows this model's context.
  std::vector<TokenId> propose(const GeneratedText& text, std::int64_t count);

 private:
  const Job& job_;
  std::unique_ptr<RewindableSession> session_;
  std::int64_t max_length_;    ///< largest number of tokens that the model reads
  std::vector<TokenId> read_;  ///< tokens that it has read
};

/// Generates a text with a draft model; false if the listener ended it.
/// The n-th token is a function of the model's logits before it and of draw n alone (sampler.h),
/// and up to kFewTokens logits are the same bits in one pass: the text is that without a draft,
/// whatever the draft proposes. (Leviathan et al., arXiv:2211.17192, keep the distribution by
/// rejection; here both models choose with the same draw and the text itself is kept. Where
/// temperature is 0 both are the same.)
bool generate_drafted(RewindableSession& session, Draft& draft, GeneratedText& text, const Job& job,
                      GenerationSpeed& speed);

}  // namespace penstock
