// Writes a model directory from another model, tensor by tensor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/file_system.h"
#include "penstock/convert/conversion_progress.h"
#include "penstock/models/formats/lazy_tensors.h"
#include "penstock/models/model_source.h"
#include "penstock/routers/parts.h"

namespace penstock {

/// The state of a new model's balancers, by the names of its files.
class FreshBalancers {
 public:
  /// @param balancers  of the model, in the config's order
  explicit FreshBalancers(std::vector<std::shared_ptr<Balancer>> balancers)
      : balancers_(std::move(balancers)) {}
  /// The tensor of that name in the model's files. REQUIRES: the name begins with
  /// "penstock.balancer_".
  LazyTensor tensor(const std::string& name) const;

 private:
  std::vector<std::shared_ptr<Balancer>> balancers_;
};

struct WrittenModel {
  std::uint64_t bytes = 0;        ///< bytes of the weights
  std::string without_tokenizer;  ///< why no tokenizer was copied; "": one was copied
};

/// Writes `out` atomically: config.json, model.safetensors, the parent's tokenizer files, chat
/// template and generation_config.json if it has any, and one additional file.
/// @param tensors  tensors with the config's names and shapes
/// @param note  name of the additional file, and its text, made after the weights are written
/// REQUIRES: `out` does not exist (asserted). Memory: one tensor.
WrittenModel write_model_of(
    const ModelSource& parent, const ModelConfig& config, std::vector<LazyTensor> tensors,
    const std::pair<std::string, std::function<std::string(const WrittenModel&)>>& note,
    FileSystem& fs, const std::string& out, const ConversionProgress& progress = {});

}  // namespace penstock
