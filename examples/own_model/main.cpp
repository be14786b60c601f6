// A small libtorch model of one's own with Penstock's MoE layer in it: learns to tell which quarter
// of the circle a noisy point came from after the plane was wound around the centre. Exits 1 unless
// the loss falls to half. Prints the methods that the layer can be given.
#include <torch/torch.h>

#include <iostream>

#include "penstock/layers/moe.h"

struct Net : torch::nn::Module {
  Net() {
    in = register_module("in", torch::nn::Linear(2, 32));
    penstock::MoeOptions options{.d_model = 32, .d_ffn = 64, .experts = 8};
    options.router.method = "remoe";
    options.init_std = options.output_std = 0.2;
    moe = register_module("moe", std::make_shared<penstock::MoeLayer>(options));
    out = register_module("out", torch::nn::Linear(32, 4));
  }
  std::pair<at::Tensor, penstock::RoutingResult> forward(const at::Tensor& points) {
    const at::Tensor hidden = in(points);
    auto [y, routing] = moe->forward(hidden, {.training = is_training()});
    return {out(hidden + y), std::move(routing)};
  }
  torch::nn::Linear in{nullptr}, out{nullptr};
  std::shared_ptr<penstock::MoeLayer> moe;
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
    auto [logits, routing] = net.forward(points);
    const at::Tensor task = torch::cross_entropy_loss(logits, target);
    optimizer.zero_grad();
    (routing.loss.defined() ? task + routing.loss : task).backward();
    optimizer.step();
    net.moe->after_step();
    last = task.item<double>();
    if (step == 0) first = last;
    if (step % 100 == 0)
      std::cout << "step " << step << "  loss " << last << "  experts off "
                << penstock::sparsity(routing.plan) << "\n";
  }
  std::cout << "loss " << first << " -> " << last << "\n";
  return last < first / 2 ? 0 : 1;
}
