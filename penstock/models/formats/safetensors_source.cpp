#include "penstock/models/formats/safetensors_source.h"

#include "penstock/base/error.h"
#include "penstock/data/tokenizers/from_files.h"
#include "penstock/models/formats/published_layouts.h"

namespace penstock {

SafetensorsSource::SafetensorsSource(ModelConfig config, const std::string& directory,
                                     const std::string& ignored)
    : MappedSource(std::move(config), find_safetensors(directory)),
      directory_(directory),
      files_(origin()) {
  tensors_ = find_tensors(this->config(), files_, ignored, origin());
}

std::shared_ptr<const Tokenizer> SafetensorsSource::tokenizer() const {
  auto out = load_tokenizer(directory_);
  PENSTOCK_CHECK(out->vocab_size() <= config().vocab, directory_, ": its tokenizer has ",
                 out->vocab_size(), " ids, and the model a vocabulary of ", config().vocab);
  return out;
}

}  // namespace penstock
