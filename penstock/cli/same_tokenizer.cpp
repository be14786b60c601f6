#include "penstock/cli/same_tokenizer.h"

#include "penstock/base/error.h"
#include "penstock/models/model_source.h"

namespace penstock {

void check_same_tokenizer(const std::string& model, const Corpus& corpus) {
  const auto model_tokenizer = open_model_source(model)->tokenizer();
  PENSTOCK_CHECK(model_tokenizer->files() == corpus.tokenizer().files(), corpus.path(),
                 ": was made with another tokenizer (", corpus.tokenizer_spec(), ", ",
                 corpus.tokenizer().vocab_size(), " ids) than the model (", model_tokenizer->spec(),
                 ", ", model_tokenizer->vocab_size(), " ids); prepare the text with the model's");
}

}  // namespace penstock
