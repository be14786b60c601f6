// The classifier's head: it turns a text's last hidden row into the logits of the classes.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <optional>

namespace penstock {

class ClassifierHead : public torch::nn::Module {
 public:
  /// Matrices ~ N(0, init_std²) drawn from the seed, biases 0.
  ClassifierHead(std::int64_t d_model, std::int64_t classes, double dropout, double init_std,
                 std::uint64_t seed);

  /// Logits.  z = W₂ · drop(tanh(W₁ · h + b₁)) + b₂
  /// @param hidden [B, d] f32|f64;  @param dropout_seed  nullopt: no dropout.  @return [B, C].
  /// Gradient: hidden, parameters. Source: HyperRouter's fine-tuning code, with any number of
  /// classes in place of two.
  at::Tensor forward(const at::Tensor& hidden, std::optional<std::int64_t> dropout_seed) const;
  std::int64_t classes() const { return out_bias_.size(0); }

 private:
  double dropout_;
  at::Tensor dense_weight_, dense_bias_;  // [d, d], [d]
  at::Tensor out_weight_, out_bias_;      // [C, d], [C]
};

}  // namespace penstock
