// A small libtorch model with two of Penstock's MoE layers. It gets random points of a plane and
// learns to tell in which quarter of the circle each point lies after the plane is wound around its
// centre.
// Prints the methods that the layers can use. Exits with 1 unless the loss falls to half and the
// layers share one λ that moves once a step.
#include <torch/torch.h>

#include <cmath>
#include <iostream>

#include "penstock/layers/moe.h"
#include "penstock/routers/methods.h"

struct Net : torch::nn::Module {
  Net() {
    in = register_module("in", torch::nn::Linear(2, 32));
    penstock::MoeOptions options{.d_model = 32, .d_ffn = 64, .experts = 8, .layers = 2};
    options.router.method = "remoe";
    options.init_std = options.output_std = 0.2;
    moe = penstock::make_moe_layers(options);
    for (std::size_t i = 0; i < moe.size(); ++i)
      register_module("moe_" + std::to_string(i), moe[i]);
    out = register_module("out", torch::nn::Linear(32, 4));
  }
  /// Logits, and the sum of the layers' auxiliary losses (undefined outside training).
  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& points) {
    at::Tensor hidden = in(points), auxiliary;
    for (const auto& layer : moe) {
      auto [y, routing] = layer->forward(hidden, {.training = is_training()});
      hidden = hidden + y;
      if (routing.loss.defined())
        auxiliary = auxiliary.defined() ? auxiliary + routing.loss : routing.loss;
      sparsity = penstock::sparsity(routing.plan);
    }
    return {out(hidden), auxiliary};
  }
  /// λ of each balancer in the model.
  std::vector<double> lambdas() const {
    std::vector<double> values;
    for (const auto& buffer : named_buffers())
      if (buffer.key().find("lambda") != std::string::npos)
        values.push_back(buffer.value().item<double>());
    return values;
  }
  torch::nn::Linear in{nullptr}, out{nullptr};
  std::vector<std::shared_ptr<penstock::MoeLayer>> moe;
  double sparsity = 0;  // sparsity of the last layer in the last pass
};

int main() {
  for (const auto& [name, method] : penstock::method_registry().entries())
    std::cout << name << "\n";
  torch::manual_seed(1);
  Net net;
  torch::optim::AdamW optimizer(net.parameters(), torch::optim::AdamWOptions(3e-3));
  double first = 0, last = 0;
  for (int step = 0; step < 600; ++step) {
    const at::Tensor points = torch::randn({512, 2});
    const at::Tensor angle = torch::atan2(points.select(1, 1), points.select(1, 0));
    const at::Tensor wound = torch::remainder(angle + 3 * points.norm(2, 1), 2 * M_PI);
    const at::Tensor target = (wound * (2 / M_PI)).floor().clamp(0, 3).to(torch::kLong);
    auto [logits, auxiliary] = net.forward(points);
    const at::Tensor task = torch::cross_entropy_loss(logits, target);
    optimizer.zero_grad();
    (auxiliary.defined() ? task + auxiliary : task).backward();
    optimizer.step();
    net.moe.front()->after_step();  // one call for all layers
    last = task.item<double>();
    if (step == 0) {
      first = last;
      // Half of all experts are active, which is more than the target. So the one λ has risen from
      // 1e-8 by its factor once.
      if (net.lambdas().size() != 1 || std::abs(net.lambdas()[0] - 1.2e-8) > 1e-14) return 1;
    }
    if (step % 100 == 0)
      std::cout << "step " << step << "  loss " << last << "  experts off " << net.sparsity << "\n";
  }
  std::cout << "loss " << first << " -> " << last << "\n";
  return last < first / 2 ? 0 : 1;
}
