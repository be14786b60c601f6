// How a layer says which tensors it has without being built: what each is called in files, its
// shape, what it is for, and which parameter holds it. Each layer describes its own beside its
// constructor, from the same options; models/counts/model_tensors.h puts those of a model together.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace penstock {

/// What a tensor is for, which says what FLOPs it takes. `rest` counts as parameters; its
/// products are not counted.
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

/// How the ranks that share a layer's products divide a tensor: each has heads or neurons of its
/// own (`rows`: those that it computes; `columns`: those that it sums over), or all of it.
enum class TensorSplit { none, rows, columns };

/// What a backward pass leaves such a rank of the gradient of a tensor that it has all of.
enum class GradientShare {
  whole,     ///< as the others
  of_heads,  ///< of its heads: norms of queries and keys
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
  /// Numbers in one.
  std::int64_t size() const;
};

/// A tensor of files that is some rows of a parameter, which holds several below each other.
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
  /// The place of a module that this one has under that name.
  LayerTensors below(const std::string& name) const;
  /// The same place, where each of so many experts has what is added.
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
