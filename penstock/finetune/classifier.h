// A pretrained body with a classifier's head on a text's last position. It takes no padding: the
// texts of a pass have one length, so a text's logits depend on that text alone.
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
  ModelMemory memory = {};         ///< what precedes the rows, where it is carried
  std::int64_t memory_length = 0;  ///< positions to carry on
  std::optional<std::int64_t> dropout_seed = std::nullopt;  ///< of the head's
  LayerWatch watch = {};                                    ///< of the body's layers; may be null
};

struct ClassifierOutput {
  at::Tensor logits;          ///< [B, C]
  at::Tensor auxiliary_loss;  ///< of the router; undefined when there is none
  ModelMemory memory = {};
};

class Classifier : public torch::nn::Module {
 public:
  Classifier(std::shared_ptr<LanguageModel> body, std::shared_ptr<ClassifierHead> head);

  /// Routers that merge experts segment by segment get the rows filled up to whole segments with
  /// token 0, by a text's own length alone.
  ClassifierOutput forward(const ClassifierInput& input, const RoutingContext& context,
                           const RoutingTap& routing_tap = {}, const HiddenTap& hidden_tap = {});

  LanguageModel& body() { return *body_; }
  std::int64_t classes() const { return head_->classes(); }
  /// The body's tensors under their file names, and the head's as classifier.*; they alias it.
  TensorMap tensors();
  /// Copies all of them in. Throws Error naming a missing, unknown or wrongly shaped one.
  void load(TensorMap tensors, const std::string& where);

 private:
  std::shared_ptr<LanguageModel> body_;
  std::shared_ptr<ClassifierHead> head_;
};

}  // namespace penstock
