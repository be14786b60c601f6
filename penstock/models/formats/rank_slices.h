// Which part of each of a model's tensors a rank holds: the one place where a layout meets names.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "penstock/models/counts/model_tensors.h"
#include "penstock/models/model_place.h"

namespace penstock {

/// Whether a part of the layers goes with that tensor.
bool holds(const ModelConfig& config, const ModelPart& part, const ModelTensor& tensor);

/// By the name of each parameter and buffer that the part holds, in the model as modules
/// ("layer_3.self_attn.qkv_proj.weight"). Builds only scorers and balancers.
/// REQUIRES: config is resolved; check_divides().
std::map<std::string, Slice> model_slices(const ModelConfig& config, const ModelPart& part);
/// The same for many parts of one model. @param tensors  model_tensors(config)
std::map<std::string, Slice> model_slices(const std::vector<ModelTensor>& tensors,
                                          const ModelConfig& config, const ModelPart& part);

/// Views of whole parameters and buffers, by module name, under the names that files have
/// (models/formats/tensor_names.h). REQUIRES: each is there (asserted).
std::map<std::string, at::Tensor> file_views(const ModelConfig& config,
                                             const std::map<std::string, at::Tensor>& whole);

/// What files hold of a whole parameter or buffer as that tensor, of that expert: a view.
at::Tensor file_view(const at::Tensor& whole, const ModelTensor& tensor, std::int64_t expert);

/// What a part holds of one of the tensors that files have.
struct FilePart {
  std::string name, module;
  TensorRole role = TensorRole::rest;
  bool of_expert = false;
  Slice slice;              ///< of the tensor in files
  std::int64_t offset = 0;  ///< of its first number among those that the part holds of `module`
  /// Held ones, which lie one behind the other.
  std::int64_t numbers() const;
};
/// Of all tensors that the part holds anything of. REQUIRES: as model_slices().
/// @param tensors  model_tensors(config)
std::vector<FilePart> file_parts(const std::vector<ModelTensor>& tensors, const ModelConfig& config,
                                 const ModelPart& part);

/// Names of the parameters that are experts', in the model as modules.
std::set<std::string> expert_parameters(const ModelConfig& config);

/// Names of the parameters of which the backward passes of the ranks of `tensor` leave each a share
/// of the gradient, though all hold them whole (GradientShare).  @param tensors  of the model
std::set<std::string> parameters_in_shares(const std::vector<ModelTensor>& tensors,
                                           const dist::Layout& layout);

/// Names of the tensors of which that rank is the first to hold the slice that it holds: over all
/// ranks of the layout every part of the model is there once. REQUIRES: as model_slices().
std::set<std::string> first_held(const ModelConfig& config, const dist::Layout& layout, int rank,
                                 int chunks = 1);

}  // namespace penstock
