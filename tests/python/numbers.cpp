// Numbers computed in C++. The tests of the Python package (layers_test.py) compare them bit for
// bit.
//   python_numbers layers OUT           every method: two training steps of its layers
//   python_numbers logits MODEL OUT     logits of the ids 0 to 23
// The tensors are written as safetensors.
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdio>
#include <exception>
#include <string>

#include "penstock/base/file_system.h"
#include "penstock/layers/moe.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/models/formats/torch_safetensors.h"
#include "penstock/routers/methods.h"

namespace penstock {
namespace {

constexpr std::int64_t kTokens = 16, kWidth = 16;

/// A method's layer options. A merging method gets segments of 8, because there are only 16 tokens.
MoeOptions options_of(const std::string& method) {
  MoeOptions options{.d_model = kWidth, .d_ffn = 24, .experts = 4, .layers = 2};
  options.router.method = method;
  options.router.k = 2;
  if (resolve(options.router).traits.merges)
    options.router.parts[resolve(options.router).selector].set("segment_length", 8);
  return options;
}

void add_layers(TensorMap& out, const std::string& method) {
  torch::manual_seed(7);
  const auto layers = make_moe_layers(options_of(method));
  std::vector<at::Tensor> parameters;
  for (const auto& layer : layers)
    for (const auto& parameter : layer->parameters()) parameters.push_back(parameter);
  const at::Tensor x = at::randn({2, kTokens / 2, kWidth}).requires_grad_();
  const at::Tensor ids = at::arange(kTokens);
  for (std::int64_t step = 0; step < 2; ++step) {
    at::Tensor hidden = x, loss = at::zeros({});
    for (const auto& layer : layers) {
      auto [y, routing] = layer->forward(
          hidden, {.step = step, .total_steps = 10, .training = true, .token_ids = ids});
      hidden = hidden + y;
      if (routing.loss.defined()) loss = loss + routing.loss;
    }
    (hidden.square().mean() + loss).backward();
    out[method + ".y." + std::to_string(step)] = hidden.detach();
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : parameters)
      if (parameter.grad().defined()) {
        parameter.sub_(parameter.grad(), 0.5);
        parameter.mutable_grad().reset();
      }
    layers.front()->after_step();
  }
  out[method + ".dx"] = x.grad();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (const auto& item : layers[i]->named_parameters())
      out[method + "." + std::to_string(i) + "." + item.key()] = item.value().detach().clone();
    for (const auto& item : layers[i]->named_buffers())
      out[method + "." + std::to_string(i) + "." + item.key()] = item.value().clone();
  }
}

TensorMap logits_of(const std::string& path) {
  const auto model = load_model(path);
  const at::NoGradGuard no_grad;
  const auto out = model->forward({.tokens = at::arange(24).unsqueeze(0)}, {});
  return {{"logits", model->logits(out.hidden).contiguous()}};
}

int run(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  TensorMap out;
  if (what == "layers" && argc == 3) {
    for (const auto& [name, method] : method_registry().entries())
      if (!method.selector.empty()) add_layers(out, name);
  } else if (what == "logits" && argc == 4) {
    out = logits_of(argv[2]);
  } else {
    return 2;
  }
  save_tensors(real_file_system(), argv[argc - 1], out, {{"format", "pt"}});
  return 0;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  try {
    return penstock::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
