// A ModelSource whose tensors lie unchanged in mapped memory: each name has its bytes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "penstock/io/safetensors.h"
#include "penstock/models/model_source.h"

namespace penstock {

/// The base of sources over mapped files. The derived class owns the files and fills `tensors_`
/// with a view for each tensor of the config, in its shape. A view may be a part of a stored
/// tensor, such as one of many experts. A view's name is that of the stored tensor.
class MappedSource : public ModelSource {
 public:
  std::vector<std::string> names() const override;
  std::vector<std::int64_t> shape(const std::string& name) const override;
  at::Tensor tensor(const std::string& name) const override;
  std::optional<ops::StoredRows> stored(const std::string& name) const override;
  std::string stored_name(const std::string& name) const override;

 protected:
  using ModelSource::ModelSource;
  std::map<std::string, TensorView> tensors_;

 private:
  const TensorView& view(const std::string& name) const;
};

}  // namespace penstock
