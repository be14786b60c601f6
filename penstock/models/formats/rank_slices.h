// The part of each of a model's tensors that a rank holds. Only this file connects a layout with
// tensor names.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "penstock/models/counts/model_tensors.h"
#include "penstock/models/model_place.h"

namespace penstock {

/// Whether a part of the layers includes that tensor.
bool holds(const ModelConfig& config, const ModelPart& part, const ModelTensor& tensor);

/// The slices of the parameters and buffers that the part holds, by name in the model as modules
/// ("layer_3.self_attn.qkv_proj.weight"). This builds only scorers and balancers.
/// REQUIRES: config is resolved; check_divides().
std::map<std::string, Slice> model_slices(const ModelConfig& config, const ModelPart& part);
/// The same for many parts of one model.
/// @param tensors  model_tensors(config)
std::map<std::string, Slice> model_slices(const std::vector<ModelTensor>& tensors,
                                          const ModelConfig& config, const ModelPart& part);

/// Views of whole parameters and buffers under their names in files
/// (models/formats/tensor_names.h). `whole` is by module name.
/// REQUIRES: `whole` has each of them (asserted).
std::map<std::string, at::Tensor> file_views(const ModelConfig& config,
                                             const std::map<std::string, at::Tensor>& whole);

/// The view of a whole parameter or buffer that files hold as `tensor`, of that expert.
at::Tensor file_view(const at::Tensor& whole, const ModelTensor& tensor, std::int64_t expert);

/// The part of one tensor in files that a rank holds.
struct FilePart {
  std::string name, module;
  TensorRole role = TensorRole::rest;
  bool of_expert = false;
  Slice slice;              ///< the slice of the tensor in files
  std::int64_t offset = 0;  ///< position of its first number within the rank's part of `module`
  /// The count of numbers that the rank holds. They lie one after another.
  std::int64_t numbers() const;
  /// The part of `held` that has these numbers, in the shape of the slice.
  /// @param held  the rank's part of `module`, contiguous
  at::Tensor place_in(const at::Tensor& held) const;
};
/// The parts of all tensors of which the part holds any number. REQUIRES: as model_slices().
/// @param tensors  model_tensors(config)
std::vector<FilePart> file_parts(const std::vector<ModelTensor>& tensors, const ModelConfig& config,
                                 const ModelPart& part);

/// The names of the experts' parameters in the model as modules.
std::set<std::string> expert_parameters(const ModelConfig& config);

/// The names of the parameters that every rank of `tensor` holds whole, but for which each rank's
/// backward pass gives only a share of the gradient (GradientShare).
/// @param tensors  model_tensors() of the model
std::set<std::string> parameters_in_shares(const std::vector<ModelTensor>& tensors,
                                           const dist::Layout& layout);

/// The names of the tensors whose slice that rank is the first rank to hold. Over all ranks of the
/// layout, these slices cover every part of the model exactly once.
/// REQUIRES: as model_slices().
std::set<std::string> first_held(const ModelConfig& config, const dist::Layout& layout, int rank,
                                 int chunks = 1);

}  // namespace penstock
