#include "penstock/infer/draft_check.h"

#include "penstock/base/error.h"
#include "penstock/infer/session.h"

namespace penstock {

void check_draft(const ModelConfig& model, const Tokenizer& tokenizer,
                 const GenerateOptions& options) {
  const ModelConfig& draft = options.draft->config();
  PENSTOCK_CHECK(options.draft_tokens > 0 && options.draft_tokens < kFewTokens, "a draft of ",
                 options.draft_tokens, " tokens cannot be; give 1 to ", kFewTokens - 1);
  PENSTOCK_CHECK(tokenizer.vocab_size() <= draft.vocab, "the tokenizer has ",
                 tokenizer.vocab_size(), " ids, the draft model knows ", draft.vocab,
                 ": it was trained with another one");
  PENSTOCK_CHECK(rows_stand_alone(model), "method '", model.router.method,
                 "' routes a token by what else is in a pass, so several drafted tokens would not "
                 "be routed as one after the other; generate without a draft");
}

void check_same_ids(const Tokenizer& model, const Tokenizer& draft) {
  PENSTOCK_CHECK(model.vocab_size() == draft.vocab_size(), "the draft model's tokenizer has ",
                 draft.vocab_size(), " ids, the model's ", model.vocab_size(),
                 "; a draft needs the same tokenizer");
  PENSTOCK_CHECK(model.end_of_document() == draft.end_of_document(),
                 "the draft model's tokenizer ends documents with id ", draft.end_of_document(),
                 ", the model's with ", model.end_of_document());
  for (TokenId id = 0; id < model.vocab_size(); ++id) {
    std::string mine, theirs;
    model.decode(id, mine);
    draft.decode(id, theirs);
    PENSTOCK_CHECK(mine == theirs, "id ", id, " is '", theirs, "' to the draft model, '", mine,
                   "' to the model; a draft needs the same tokenizer");
  }
}

}  // namespace penstock
