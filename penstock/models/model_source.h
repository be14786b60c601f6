// A checkpoint of any format, behind the same names: what a model is made of, whoever wrote it.
// Opening one is in open_model.h, building a model of it in model_directory.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/data/tokenizer.h"
#include "penstock/models/model_config.h"
#include "penstock/ops/stored_matrix.h"

namespace penstock {

/// A checkpoint: what it describes, and its tensors under Penstock's own file names
/// (models/formats/tensor_names.h), whatever they are called in the file. Opening reads headers
/// alone and checks them: every tensor that the config asks for is there in its shape, and no
/// other.
class ModelSource {
 public:
  virtual ~ModelSource() = default;
  const ModelConfig& config() const { return config_; }
  /// Where it lies, for errors.
  const std::string& origin() const { return origin_; }
  /// Sorted, and complete: what the config asks for, no more.
  virtual std::vector<std::string> names() const = 0;
  /// What the config asks for under that name; throws Error for another.
  virtual std::vector<std::int64_t> shape(const std::string& name) const = 0;
  /// The tensor on the CPU, of its shape and dense, in the type that is stored (F16, BF16, F32 or
  /// F64; F32 where that has no such type): a copy, or a view that keeps the file mapped. Not to be
  /// written to. Throws Error for a name that is not among names().
  virtual at::Tensor tensor(const std::string& name) const = 0;
  /// The tensor's rows as the file has them, of as many numbers as its last axis: what products can
  /// read. Nothing where its type is another, or where it is no matrix. They are the source's.
  /// Throws Error as tensor() does.
  virtual std::optional<ops::StoredRows> stored(const std::string&) const { return {}; }
  /// The model's tokenizer; throws Error where there is none.
  virtual std::shared_ptr<const Tokenizer> tokenizer() const = 0;

 protected:
  ModelSource(ModelConfig config, std::string origin)
      : config_(std::move(config)), origin_(std::move(origin)) {}

 private:
  ModelConfig config_;
  std::string origin_;
};

}  // namespace penstock
