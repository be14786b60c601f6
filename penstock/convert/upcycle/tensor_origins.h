// Maps each tensor of an upcycled model to the dense model's tensor that it is made from, and to
// its type.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "penstock/convert/upcycle/upcycle_options.h"
#include "penstock/models/model_source.h"

namespace penstock {

/// Names are those in model files. The parent has no tensors for routers and balancers.
class TensorOrigins {
 public:
  /// REQUIRES: both outlive it.
  TensorOrigins(const ModelSource& parent, const UpcycleOptions& options)
      : parent_(parent), options_(options) {}
  /// The parent's tensor.
  std::string parent_of(const std::string& name) const;
  /// The type that the options give, or else the parent tensor's type. Each parent tensor is read
  /// once for its type.
  at::ScalarType type_of(const std::string& name);

 private:
  const ModelSource& parent_;
  const UpcycleOptions& options_;
  std::map<std::string, at::ScalarType> types_;  // of the parent's tensors read so far
};

}  // namespace penstock
