// Of which tensor of the dense model each tensor of an upcycled one is made, and its type.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "penstock/convert/upcycle/upcycle_options.h"
#include "penstock/models/model_source.h"

namespace penstock {

/// Names are those of files; of routers and balancers the parent has nothing.
class TensorOrigins {
 public:
  /// REQUIRES: both outlive it.
  TensorOrigins(const ModelSource& parent, const UpcycleOptions& options)
      : parent_(parent), options_(options) {}
  /// The parent's tensor.
  std::string parent_of(const std::string& name) const;
  /// As the options say, or else the type that the parent's has, which is read once for it.
  at::ScalarType type_of(const std::string& name);

 private:
  const ModelSource& parent_;
  const UpcycleOptions& options_;
  std::map<std::string, at::ScalarType> types_;  // of the parent's tensors, as far as asked
};

}  // namespace penstock
