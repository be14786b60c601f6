// Processor time of forward and backward passes of one MoE layer, called from a libtorch program.
// bench/python_layer.py compares the same passes called from Python.
//   layer_pass D_MODEL D_FFN EXPERTS K METHOD TOKENS PASSES     prints seconds of each pass
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdio>
#include <ctime>

#include "penstock/layers/moe.h"
#include "penstock/ops/dispatch.h"

namespace {

double now() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fprintf(stderr, "usage: layer_pass D_MODEL D_FFN EXPERTS K METHOD TOKENS PASSES\n");
    return 2;
  }
  const auto number = [&](int i) { return std::atoll(argv[i]); };
  penstock::ops::set_threads(1);
  torch::manual_seed(1);
  penstock::MoeOptions options{.d_model = number(1), .d_ffn = number(2), .experts = number(3)};
  options.router.k = static_cast<double>(number(4));
  options.router.method = argv[5];
  const auto layer = std::make_shared<penstock::MoeLayer>(options);
  const at::Tensor x = at::randn({number(6), number(1)}).requires_grad_();
  const at::Tensor gradient = at::randn({number(6), number(1)});
  for (std::int64_t pass = 0; pass < number(7); ++pass) {
    const double begun = now();
    for (const at::Tensor& parameter : layer->parameters()) parameter.mutable_grad().reset();
    x.mutable_grad().reset();
    auto [y, routing] = layer->forward(x, {.training = true});
    const at::Tensor task = (y * gradient).sum();
    (routing.loss.defined() ? task + routing.loss : task).backward();
    layer->after_step();
    std::printf("%.9f\n", now() - begun);
  }
}
