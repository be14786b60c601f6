// Descriptions of a layer's tensors without building the layer: name in files, shape, purpose, and
// the parameter that holds it. Each layer describes its tensors beside its constructor, from the
// same options. models/counts/model_tensors.h collects those of a model.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace penstock {

/// The purpose of a tensor, which decides the FLOPs counted for it. `rest` counts as parameters,
/// without FLOPs.
enum class TensorRole {
  embedding,  ///< the head's matrix too
  query,
  key_value,
  distance,  ///< projects the sinusoids of distances
  output,
  dense,  ///< feed-forward of a layer without experts
  expert,
  shared,  ///< the shared expert and its gate
  rest,
  router,
  balancer
};

/// How tensor-parallel ranks divide a tensor. `rows`: each rank has the rows of the heads or
/// neurons that it computes. `columns`: each has the columns of those that it sums over. Otherwise
/// each rank has the whole tensor.
enum class TensorSplit { none, rows, columns };

/// The part of the gradient that a backward pass gives a tensor-parallel rank for a tensor that it
/// has whole.
enum class GradientShare {
  whole,     ///< the whole gradient, as on the other ranks
  of_heads,  ///< the part of its heads: norms of queries and keys
  of_rows  ///< of the rows that it holds between products (RankRows): all, where none divides them
};

/// A tensor of the model's files, or one of each expert.
struct ModelTensor {
  std::string stem, rest;  ///< of the name: "model.layers.3.mlp.experts." and ".up_proj.weight"
  std::vector<std::int64_t> shape;  ///< of an expert's, where there is one of each
  TensorRole role = TensorRole::rest;
  TensorSplit split = TensorSplit::none;
  GradientShare gradient = GradientShare::whole;
  std::int64_t layer = -1;     ///< that it belongs to; -1: none
  std::int64_t experts = 0;    ///< how many there are of it; 0: one, which is no expert's
  std::string module;          ///< parameter or buffer of the model: "layer_3.mlp.experts.gate_up"
  std::int64_t first_row = 0;  ///< where it begins in that, or in an expert's part of it
  bool trained = true;         ///< else a frozen parameter, or a buffer

  std::string name(std::int64_t expert = 0) const {
    return experts == 0 ? stem + rest : stem + std::to_string(expert) + rest;
  }
  /// The number of values in one tensor.
  std::int64_t size() const;
};

/// A tensor in files that is some rows of a parameter; the parameter stacks several such tensors.
struct FusedRows {
  const char* name;  ///< in files, without ".weight"
  std::int64_t count;
  TensorRole role;
  TensorSplit split = TensorSplit::none;
};

/// The list to which the layers of a model add their tensors, and the place of one of them: what
/// the names of its tensors begin with, "model.layers.3.mlp." in files and "layer_3.mlp." in the
/// model.
class LayerTensors {
 public:
  /// @param out  kept, and outlives this
  LayerTensors(std::vector<ModelTensor>& out, std::string file, std::string module,
               std::int64_t layer = -1);
  /// The place of this module's child with the name.
  LayerTensors below(const std::string& name) const;
  /// The same place; each of `experts` experts has the tensors that are added.
  LayerTensors of_each(std::int64_t experts) const;

  /// @param name, module  in files and in the model, after what both begin with
  void add(const std::string& name, const std::string& module, std::vector<std::int64_t> shape,
           TensorRole role = TensorRole::rest, GradientShare gradient = GradientShare::whole) const;
  /// Matrices with `inputs` columns, which the parameter `weight` holds below each other, and their
  /// biases, which the parameter `bias` holds; "": without biases.
  void add_fused(const std::vector<FusedRows>& parts, std::int64_t inputs,
                 const std::string& weight, const std::string& bias) const;
  /// Parameters and buffers of a built module, `named` as files have them.
  /// @param module  that module's place below this one, "router.scorer." or ""
  void add_module(const torch::nn::Module& part, const std::string& module, TensorRole role,
                  const std::function<std::string(const std::string&)>& named) const;

 private:
  ModelTensor& added(const std::string& name, const std::string& module,
                     std::vector<std::int64_t> shape, TensorRole role) const;

  std::vector<ModelTensor>* out_;
  std::string file_, module_;
  std::int64_t layer_, experts_ = 0;
};

}  // namespace penstock
