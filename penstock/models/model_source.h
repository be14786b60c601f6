// The interface of a checkpoint of any format: the model's config, tensors and tokenizer. Tensors
// have the same names in all formats. open_model.h opens a checkpoint; model_directory.h builds a
// model from one.
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
#include "penstock/ops/stored_rows.h"

namespace penstock {

/// A checkpoint: the config of its model, and the tensors under Penstock's own file names
/// (models/formats/tensor_names.h), whatever names the file uses. Opening a checkpoint reads only
/// headers. It checks that the file has every tensor of the config, in the right shape, and no
/// other tensor.
class ModelSource {
 public:
  virtual ~ModelSource() = default;
  const ModelConfig& config() const { return config_; }
  /// The path of the checkpoint, for error messages.
  const std::string& origin() const { return origin_; }
  /// The names of all tensors of the config, sorted.
  virtual std::vector<std::string> names() const = 0;
  /// The shape of the tensor with that name. Throws Error for a name that is not among names().
  virtual std::vector<std::int64_t> shape(const std::string& name) const = 0;
  /// The tensor on the CPU, dense and in its shape. Its type is the stored type (F16, BF16, F32 or
  /// F64), or F32 if the stored type is none of these. The result is a copy, or a view that keeps
  /// the file mapped. Nobody may write to it. Throws Error for a name that is not among names().
  virtual at::Tensor tensor(const std::string& name) const = 0;
  /// The tensor's rows as the file stores them, for products that read stored types. Each row has
  /// as many numbers as the tensor's last axis. Nothing if products cannot read the stored type, if
  /// the tensor is not a matrix, or if the file stores other rows. The source owns the rows. Throws
  /// Error as tensor() does.
  virtual std::optional<ops::StoredRows> stored(const std::string&) const { return {}; }
  /// The name of the file's tensor that has the tensor, for error messages: the same name, unless
  /// the format has its own names. Throws Error for a name that is not among names().
  virtual std::string stored_name(const std::string& name) const { return name; }
  /// The model's tokenizer. Throws Error if there is none.
  virtual std::shared_ptr<const Tokenizer> tokenizer() const = 0;

 protected:
  ModelSource(ModelConfig config, std::string origin)
      : config_(std::move(config)), origin_(std::move(origin)) {}

 private:
  ModelConfig config_;
  std::string origin_;
};

}  // namespace penstock
