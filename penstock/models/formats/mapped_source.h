// A ModelSource whose tensors lie in mapped memory as they are: each name with its bytes.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "penstock/io/safetensors.h"
#include "penstock/models/model_source.h"

namespace penstock {

/// The files themselves belong to the class that derives from this, which fills `tensors_`: a view
/// for each tensor that the config asks for, in its shape. A view may be a part of what a file
/// holds, such as one expert of many.
class MappedSource : public ModelSource {
 public:
  std::vector<std::string> names() const override;
  std::vector<std::int64_t> shape(const std::string& name) const override;
  at::Tensor tensor(const std::string& name) const override;
  std::optional<ops::StoredRows> stored(const std::string& name) const override;

 protected:
  using ModelSource::ModelSource;
  std::map<std::string, TensorView> tensors_;

 private:
  const TensorView& view(const std::string& name) const;
};

}  // namespace penstock
