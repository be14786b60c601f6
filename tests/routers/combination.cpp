#include "tests/routers/combination.h"

#include <ATen/CPUGeneratorImpl.h>

#include <map>

namespace penstock::testing {
namespace {

/// Options that make effects large enough to measure: large loss coefficients, short segments.
std::map<std::string, ConfigNode> visible_options() {
  return {{"hypernetwork", node({{"embedding", std::int64_t{4}}, {"hidden", std::int64_t{8}}})},
          {"mixture", node({{"width", std::int64_t{4}}})},  // 6 / 5 = 1 makes logits proportional
          {"noisy-linear", node({{"init", std::string("normal")}})},
          {"lory", node({{"segment_length", std::int64_t{4}}})},
          {"adaptive-l1", node({{"initial", 0.3}})},
          {"load-balance", node({{"coefficient", 0.5}})},
          {"z-loss", node({{"coefficient", 0.2}})},
          {"importance", node({{"coefficient", 0.3}})},
          {"locality", node({{"coefficient", 0.3}, {"elsewhere", 0.2}})},
          {"load", node({{"coefficient", 0.4}})},
          {"loss-free", node({{"rate", 0.1}})},
          {"threshold", node({{"rate", 0.1}})},
          {"expert-threshold", node({{"rate", 0.1}})},
          {"sparsemixer-v2", node({{"jitter", 0.6}})},
          {"topk-capacity", node({{"capacity", 0.8}, {"eval_capacity", 0.8}})},
          {"gshard", node({{"capacity", 0.7}, {"eval_capacity", 0.7}})}};
}

}  // namespace

StepStatistics uneven_step(std::int64_t experts) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(experts), 1);
  tokens[0] = 10;
  std::vector<double> lowest(static_cast<std::size_t>(experts), 0.3);
  lowest[0] = 0.1;
  return {.sparsity = 0.4,
          .expert_tokens = {tokens, tokens},
          .tokens = {12, 12},
          .lowest_taken = {lowest, lowest}};
}

Combination::Combination(const std::string& scorer, const std::string& selector,
                         const std::vector<std::string>& balancers, const Case& size,
                         const Options& selector_options)
    : size_(size), selector_options_(selector_options) {
  RouterConfig config{.scorer = scorer, .selector = selector, .balancers = balancers, .k = size.k};
  const auto options = visible_options();
  for (const auto& name : {std::vector<std::string>{scorer, selector}, balancers})
    for (const auto& part : name)
      if (options.contains(part)) config.parts[part] = options.at(part);
  if (!selector_options.empty()) config.parts[selector].merge(node(selector_options));
  resolved_ = resolve(config);
  const RouterShape shape{.d_model = size.width, .experts = size.experts, .k = size.k, .layers = 2};
  balancers_ = make_balancers(resolved_, shape);
  for (const auto& balancer : balancers_) balancer->after_step(uneven_step(size.experts));
  router_ = std::make_shared<Router>(resolved_, shape, balancers_);
  experts_ = std::make_shared<Experts>(size.experts, size.width, 3);
  const InitialDraws draws(11);
  router_->to(at::kDouble);
  experts_->to(at::kDouble);
  router_->scorer().initialize(0.7, draws);
  experts_->initialize(0.7, 0.7, draws);
}

Combination Combination::made_anew() const {
  return {resolved_.scorer, resolved_.selector, resolved_.balancers, size_, selector_options_};
}

Output Combination::run(const Input& input, std::uint64_t seed, bool training) {
  RoutingContext context{.step = 3, .total_steps = 10, .training = training};
  context.token_ids = input.token_ids;
  context.sequence_length = size_.sequence_length;
  context.generator = at::detail::createCPUGenerator(seed);
  RoutingResult routing = router_->route(input.hidden, context);
  at::Tensor y = experts_->forward(input.hidden, routing.plan);
  return {std::move(y), std::move(routing)};
}

Input Combination::random_input(std::uint64_t seed) const {
  const at::Generator draws = at::detail::createCPUGenerator(seed);
  return {at::randn({size_.tokens(), size_.width}, draws, at::TensorOptions().dtype(at::kDouble)),
          at::randint(0, 40, {size_.tokens()}, draws, at::TensorOptions().dtype(at::kLong))};
}

std::vector<std::shared_ptr<torch::nn::Module>> Combination::modules() const {
  std::vector<std::shared_ptr<torch::nn::Module>> all{router_, experts_};
  all.insert(all.end(), balancers_.begin(), balancers_.end());
  return all;
}

}  // namespace penstock::testing
