// Speculative decoding: a small model proposes tokens. The large model reads them in one pass and
// accepts those that it chooses itself, up to the first that differs.
#pragma once

#include <memory>
#include <vector>

#include "penstock/infer/generated_text.h"
#include "penstock/infer/session.h"

namespace penstock {

/// The small model and the tokens that it has read.
class Draft {
 public:
  /// REQUIRES: check_draft() accepts job.options.
  /// @param capacity  the largest number of tokens of a text, including the prompt
  Draft(const Job& job, std::int64_t capacity);
  /// Begins another text: reads its prompt.
  void begin(const GeneratedText& text);
  /// Proposes up to `count` tokens that follow the text. This model's logits choose each token,
  /// with the draw that the large model will use for it. Fewer if the text exceeds this model's
  /// context.
  std::vector<TokenId> propose(const GeneratedText& text, std::int64_t count);

 private:
  const Job& job_;
  std::unique_ptr<RewindableSession> session_;
  std::int64_t max_length_;    ///< largest number of tokens that the model reads
  std::vector<TokenId> read_;  ///< tokens that the model has read
};

/// Generates a text with a draft model; false if the listener ended it.
/// The text is the same as without a draft. The n-th token is a function only of the model's logits
/// before it and of draw n (sampler.h), and a pass over up to kFewTokens tokens gives the same
/// logits, bit for bit, as one pass for each. (Leviathan et al., arXiv:2211.17192, keep the
/// distribution by rejection; here both models choose with the same draw, which keeps the text
/// itself. At temperature 0 both methods are the same.)
bool generate_drafted(RewindableSession& session, Draft& draft, GeneratedText& text, const Job& job,
                      GenerationSpeed& speed);

}  // namespace penstock
