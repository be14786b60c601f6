// MoE layers in a user's own model, with experts on several ranks: their outputs, the updates of
// their balancers, and the rank where a token is at home.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/layers/moe.h"
#include "tests/dist/ranks.h"

namespace penstock::moe_ranks {
namespace {

constexpr std::int64_t kWidth = 8, kExperts = 4;

MoeOptions options_of(const std::string& method, const dist::ProcessGroup& group = {}) {
  MoeOptions out{.d_model = kWidth, .d_ffn = 6, .experts = kExperts, .router = {.method = method}};
  out.shared_width = 5;
  out.layers = 2;
  out.init_std = out.output_std = 0.5;
  out.expert_group = group;
  return out;
}

std::vector<std::shared_ptr<MoeLayer>> layers_of(const MoeOptions& options) {
  auto out = make_moe_layers(options);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i]->to(at::kDouble);
    out[i]->initialize(InitialDraws(3 + i));
  }
  return out;
}

/// The input rows of a rank. Later ranks have more rows.
at::Tensor rows_of(std::int64_t step, std::int64_t rank) {
  return at::arange((5 + 2 * rank) * kWidth, at::kDouble)
      .mul(0.7 + 0.1 * static_cast<double>(rank + 3 * step))
      .sin()
      .view({-1, kWidth});
}

at::Tensor pass(const std::vector<std::shared_ptr<MoeLayer>>& layers, std::int64_t step,
                std::int64_t rank) {
  at::Tensor x = rows_of(step, rank), loss = at::zeros({}, at::kDouble);
  for (const auto& layer : layers) {
    MoeOutput out = layer->forward(x, {.training = true});
    x = x + out.y;
    if (out.routing.loss.defined()) loss = loss + out.routing.loss;
  }
  return at::cat({x.flatten(), loss.view({1})}).detach();
}

std::vector<at::Tensor> states(const std::vector<std::shared_ptr<MoeLayer>>& layers) {
  std::vector<at::Tensor> out;
  for (const auto& layer : layers)
    for (const at::Tensor& buffer : layer->buffers()) out.push_back(buffer.clone());
  return out;
}

class MoeRanks : public testing::RanksTest<> {};

TEST_F(MoeRanks, MoveTheirBalancersByTheTokensOfAllRanks) {
  for (const std::string method : {"remoe", "loss-free", "expert-choice"}) {
    const auto whole = layers_of(options_of(method));
    std::vector<std::vector<at::Tensor>> expected;  // by step and rank
    std::vector<std::vector<at::Tensor>> expected_states;
    for (std::int64_t step = 0; step < 3; ++step) {
      auto& of_step = expected.emplace_back();
      for (std::int64_t rank = 0; rank < 2; ++rank) of_step.push_back(pass(whole, step, rank));
      whole.front()->after_step();
      expected_states.push_back(states(whole));
    }
    EXPECT_FALSE(torch::equal(expected_states[0][0], expected_states[2][0]));
    testing::on_ranks(2, [&](const dist::ProcessGroup& group) {
      const auto layers = layers_of(options_of(method, group));
      for (std::size_t step = 0; step < 3; ++step) {
        const at::Tensor found = pass(layers, static_cast<std::int64_t>(step), group.rank());
        const at::Tensor& wanted = expected[step][static_cast<std::size_t>(group.rank())];
        EXPECT_LT((found - wanted).abs().max().item<double>(), 1e-12) << method << step;
        for (const auto& layer : layers) layer->after_step();  // moves the balancers once
        const auto state = states(layers);
        ASSERT_EQ(state.size(), expected_states[step].size());
        for (std::size_t i = 0; i < state.size(); ++i)
          // Thresholds follow the scores, whose last bits depend on the number of rows in a
          // product.
          EXPECT_LT((state[i] - expected_states[step][i]).abs().max().item<double>(),
                    method == "expert-choice" ? 1e-12 : 1e-300)
              << method << step;
      }
    });
  }
}

/// Computation while rows travel gives the bits of the same computation afterwards.
TEST_F(MoeRanks, ComputeTheSharedExpertMeanwhile) {
  for (const std::string method : {"remoe", "topk"}) {
    testing::on_ranks(2, [&](const dist::ProcessGroup& group) {
      const auto numbers = [&](bool overlap) {
        MoeOptions options = options_of(method, group);
        options.shared_gate = true;
        options.overlap = overlap;
        const auto layers = layers_of(options);
        at::Tensor x = rows_of(0, group.rank()).requires_grad_(), y = x;
        for (const auto& layer : layers) y = y + layer->forward(y, {.training = true}).y;
        (y * rows_of(1, group.rank())).sum().backward();
        std::vector<at::Tensor> out = {y.detach().flatten(), x.grad().flatten()};
        for (const auto& layer : layers)
          for (const at::Tensor& weight : layer->parameters()) {
            out.push_back(weight.grad().defined() ? weight.grad().flatten()
                                                  : at::zeros({1}, at::kDouble));
          }
        return at::cat(out);
      };
      EXPECT_TRUE(torch::equal(numbers(true), numbers(false))) << method;
    });
  }
}

TEST_F(MoeRanks, AreWhereATokenIsAtHome) {
  const auto options = [](const dist::ProcessGroup& group) {
    MoeOptions out = options_of("locmoe", group);
    out.router.parts["locality"].set("coefficient", 0.3);
    return out;
  };
  testing::on_ranks(2, [&](const dist::ProcessGroup& group) {
    const auto term = [&](MoeLayer& layer, const RoutingContext& context) {
      return layer.forward(rows_of(0, 1), context).routing.loss_terms.at("locality").item<double>();
    };
    RoutingContext context{.training = true};
    const double found = term(*layers_of(options(group)).front(), context);
    context.expert_rank = torch::tensor({0, 0, 1, 1}, at::kLong);
    context.rank = group.rank();
    const torch::NoGradGuard no_grad;
    EXPECT_NEAR(found, term(*layers_of(options({})).front(), context), 1e-14) << group.name();
    context.rank = 1 - group.rank();
    EXPECT_GT(std::fabs(found - term(*layers_of(options({})).front(), context)), 1e-4);
  });
}

}  // namespace
}  // namespace penstock::moe_ranks
