#include "penstock/finetune/classifier.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/base/error.h"
#include "penstock/eval/passes.h"
#include "penstock/models/embedding_and_head_names.h"
#include "penstock/models/formats/tensor_names.h"

namespace penstock {
namespace {

constexpr const char* kHeadNames[][2] = {{"dense_weight", "classifier.dense.weight"},
                                         {"dense_bias", "classifier.dense.bias"},
                                         {"out_weight", "classifier.out_proj.weight"},
                                         {"out_bias", "classifier.out_proj.bias"}};

}  // namespace

Classifier::Classifier(std::shared_ptr<LanguageModel> body, std::shared_ptr<ClassifierHead> head)
    : body_(register_module("body", std::move(body))),
      head_(register_module("head", std::move(head))) {
  // The classifier does not read the language model's own head. The head is saved unchanged and not
  // trained.
  for (auto& item : body_->named_parameters())
    if (only_head_reads(item.key())) item.value().set_requires_grad(false);
}

ClassifierOutput Classifier::forward(const ClassifierInput& input, const RoutingContext& context,
                                     const RoutingTap& routing_tap, const HiddenTap& hidden_tap) {
  const std::int64_t rows = input.tokens.size(0), length = input.tokens.size(1);
  PENSTOCK_ASSERT(length > 0, "a text without tokens");
  const std::int64_t whole = whole_segments(body_->config(), length);
  ModelInput model_input{.tokens = input.tokens,
                         .memory = input.memory,
                         .memory_length = input.memory_length,
                         .watch = input.watch};
  RoutingContext routing = context;
  if (whole > length) {
    model_input.tokens = torch::constant_pad_nd(input.tokens, {0, whole - length});
    routing.unpadded_length = length;
  }
  ModelOutput out = body_->forward(model_input, routing, routing_tap, hidden_tap);
  const at::Tensor last =
      out.hidden.view({rows, whole, -1}).select(1, length - 1).contiguous();  // [B, d]
  return {.logits = head_->forward(last, input.dropout_seed),
          .auxiliary_loss = out.auxiliary_loss,
          .memory = std::move(out.memory)};
}

TensorMap Classifier::tensors() {
  TensorMap out = file_tensors(*body_);
  const auto head = head_->named_parameters();
  for (const auto& [name, file_name] : kHeadNames) out[file_name] = head[name].detach();
  return out;
}

void Classifier::load(TensorMap tensors, const std::string& where) {
  torch::NoGradGuard no_grad;
  auto head = head_->named_parameters();
  for (const auto& [name, file_name] : kHeadNames) {
    const auto found = tensors.find(file_name);
    PENSTOCK_CHECK(found != tensors.end(), where, ": tensor '", file_name,
                   "' is missing; a model that `penstock finetune` wrote has it");
    PENSTOCK_CHECK(found->second.sizes() == head[name].sizes(), where, ": tensor '", file_name,
                   "' has shape ", found->second.sizes(), ", the data asks for ",
                   head[name].sizes());
    head[name].copy_(found->second);
    tensors.erase(found);
  }
  load_file_tensors(*body_, tensors, where);
}

}  // namespace penstock
