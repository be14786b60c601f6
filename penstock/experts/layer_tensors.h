// Descriptions of a layer's tensors without building the layer: name in files, shape, purpose, and
// the parameter that holds the tensor. Each layer describes its tensors beside its constructor,
// from the same options. models/counts/model_tensors.h collects the descriptions of a model.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace penstock {

/// The purpose of a tensor, which decides the FLOPs counted for it. A tensor of role `rest` counts
/// as parameters, without FLOPs.
enum class TensorRole {
  embedding,  ///< also the head's matrix
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
/// neurons that it computes. `columns`: each rank has the columns of the heads or neurons that it
/// sums over. `none`: each rank has the whole tensor.
enum class TensorSplit { none, rows, columns };

/// For a tensor that each tensor-parallel rank has whole: the part of its gradient that a rank's
/// backward pass computes.
enum class GradientShare {
  whole,     ///< the whole gradient, as on the other ranks
  of_heads,  ///< the part of the rank's heads, for norms of queries and keys
  of_rows    ///< the part of the rows that the rank holds between products (RankRows), or all rows
};

/// A tensor of the model's files, or a set of tensors with one for each expert.
struct ModelTensor {
  /// The parts of its name before and after the expert's number:
  /// "model.layers.3.mlp.experts." and ".up_proj.weight".
  std::string stem, rest;
  std::vector<std::int64_t> shape;  ///< of one tensor, where there is a set
  TensorRole role = TensorRole::rest;
  TensorSplit split = TensorSplit::none;
  GradientShare gradient = GradientShare::whole;
  std::int64_t layer = -1;     ///< the layer that it belongs to; -1: none
  std::int64_t experts = 0;    ///< the number of tensors in a set; 0: one tensor, no expert's
  std::string module;          ///< its parameter or buffer: "layer_3.mlp.experts.gate_up"
  std::int64_t first_row = 0;  ///< its first row in `module`, or in the expert's part of it
  bool trained = true;         ///< false: a frozen parameter, or a buffer

  std::string name(std::int64_t expert = 0) const {
    return experts == 0 ? stem + rest : stem + std::to_string(expert) + rest;
  }
  /// The number of values in one tensor.
  std::int64_t size() const;
};

/// A tensor in files that is `count` rows of a parameter. The parameter stacks several such
/// tensors.
struct FusedRows {
  const char* name;  ///< in files, without ".weight"
  std::int64_t count;
  TensorRole role;
  TensorSplit split = TensorSplit::none;
};

/// Adds the tensors of one module to the list of a model's tensors. It knows the prefixes of their
/// names: for example "model.layers.3.mlp." in files and "layer_3.mlp." in the model.
class LayerTensors {
 public:
  /// @param out  the list; it must outlive this object
  /// @param file, module  the prefixes in files and in the model
  LayerTensors(std::vector<ModelTensor>& out, std::string file, std::string module,
               std::int64_t layer = -1);
  /// Returns an object for the same list, with the prefixes of this module's child `name`.
  LayerTensors below(const std::string& name) const;
  /// Returns an object with the same prefixes, through which each of `experts` experts gets each
  /// tensor that is added.
  LayerTensors of_each(std::int64_t experts) const;

  /// @param name, module  the tensor's name in files and in the model, after the prefixes
  void add(const std::string& name, const std::string& module, std::vector<std::int64_t> shape,
           TensorRole role = TensorRole::rest, GradientShare gradient = GradientShare::whole) const;
  /// Adds matrices with `inputs` columns, which the parameter `weight` stacks by rows, and their
  /// biases, which the parameter `bias` stacks.  @param bias  "": without biases
  void add_fused(const std::vector<FusedRows>& parts, std::int64_t inputs,
                 const std::string& weight, const std::string& bias) const;
  /// Adds the parameters and buffers of a built module. `named` turns a name in the module into the
  /// name in files.
  /// @param module  the module's prefix after this one: "router.scorer.", or ""
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
