// A pretrained language model (the body) with a classifier's head on a text's last position. There
// is no padding: the texts of a pass have one length, so a text's logits depend on that text alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "penstock/finetune/head.h"
#include "penstock/models/formats/torch_safetensors.h"
#include "penstock/models/language_model.h"

namespace penstock {

struct ClassifierInput {
  at::Tensor tokens;               ///< [B, T] i64, no padding
  ModelMemory memory = {};         ///< the memory before the rows, if it is carried
  std::int64_t memory_length = 0;  ///< positions in the next memory
  std::optional<std::int64_t> dropout_seed = std::nullopt;  ///< of the head's dropout
  LayerWatch watch = {};                                    ///< of the body's layers; may be null
};

struct ClassifierOutput {
  at::Tensor logits;          ///< [B, C]
  at::Tensor auxiliary_loss;  ///< of the router; undefined if there is none
  ModelMemory memory = {};
};

class Classifier : public torch::nn::Module {
 public:
  Classifier(std::shared_ptr<LanguageModel> body, std::shared_ptr<ClassifierHead> head);

  /// For routers that merge experts segment by segment, pads the rows with token 0 to whole
  /// segments. The padding depends only on a text's length.
  ClassifierOutput forward(const ClassifierInput& input, const RoutingContext& context,
                           const RoutingTap& routing_tap = {}, const HiddenTap& hidden_tap = {});

  LanguageModel& body() { return *body_; }
  std::int64_t classes() const { return head_->classes(); }
  /// The body's tensors under their file names, and the head's as classifier.*; they alias the
  /// parameters.
  TensorMap tensors();
  /// Copies the tensors of tensors() into the classifier. Throws Error naming a missing, unknown or
  /// wrongly shaped tensor.
  void load(TensorMap tensors, const std::string& where);

 private:
  std::shared_ptr<LanguageModel> body_;
  std::shared_ptr<ClassifierHead> head_;
};

}  // namespace penstock
