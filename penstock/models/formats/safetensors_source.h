// A model directory as a ModelSource: safetensors files, mapped, read tensor by tensor.
#pragma once

#include <memory>
#include <string>

#include "penstock/io/safetensors.h"
#include "penstock/models/formats/mapped_source.h"

namespace penstock {

class SafetensorsSource : public MappedSource {
 public:
  /// Opens the directory's files and finds every tensor of the config; see open_model_source.
  SafetensorsSource(ModelConfig config, const std::string& directory, const std::string& ignored);
  std::shared_ptr<const Tokenizer> tokenizer() const override;

 private:
  std::string directory_;
  SafetensorsModel files_;
};

}  // namespace penstock
