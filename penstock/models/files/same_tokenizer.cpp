#include "penstock/models/files/same_tokenizer.h"

#include "penstock/base/error.h"

namespace penstock {

void check_same_tokenizer(const Tokenizer& model, const Corpus& corpus) {
  PENSTOCK_CHECK(
      model.files() == corpus.tokenizer().files(), corpus.path(),
      ": was made with another tokenizer (", corpus.tokenizer_spec(), ", ",
      corpus.tokenizer().vocab_size(), " ids) than the model (", model.spec(), ", ",
      model.vocab_size(),
      " ids); prepare the text with the model's (`penstock data prepare --tokenizer MODEL`)");
}

bool check_same_tokenizer(const ModelSource& model, const Corpus& corpus) {
  std::shared_ptr<const Tokenizer> tokenizer;
  try {
    tokenizer = model.tokenizer();
  } catch (const Error&) {
    return false;  // without a tokenizer that opens, the model's ids are taken to be the corpus's
  }
  check_same_tokenizer(*tokenizer, corpus);
  return true;
}

}  // namespace penstock
