// Which part of each of a model's tensors a rank holds: the one place where a layout meets names.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "penstock/models/model_place.h"
#include "penstock/models/tensor_shapes.h"

namespace penstock {

/// By the name of each parameter and buffer that the part holds, in the model as modules
/// ("layer_3.self_attn.qkv_proj.weight"). Builds only scorers and balancers.
/// REQUIRES: config is resolved; check_divides().
std::map<std::string, Slice> model_slices(const ModelConfig& config, const ModelPart& part);
/// The same for many parts of one model. @param tensors  model_tensors(config)
std::map<std::string, Slice> model_slices(const std::vector<ModelTensor>& tensors,
                                          const ModelConfig& config, const ModelPart& part);

/// Views of whole parameters and buffers, by module name, under the names that files have
/// (models/tensor_names.h). REQUIRES: each is there (asserted).
std::map<std::string, at::Tensor> file_views(const ModelConfig& config,
                                             const std::map<std::string, at::Tensor>& whole);

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
