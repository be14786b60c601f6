// Ranks that divide a model's experts, each with micro-batches of its own: losses, sums of
// gradients, balancers' state and the weights after some steps equal those of one process, for
// every method.
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/base/random.h"
#include "penstock/dist/transport.h"
#include "penstock/models/formats/rank_slices.h"
#include "penstock/models/language_model.h"
#include "penstock/routers/methods.h"
#include "penstock/routers/step_statistics.h"
#include "tests/base/test_names.h"
#include "tests/dist/ranks.h"
#include "tests/models/tiny_decoder.h"

namespace penstock::experts_over_ranks {
namespace {

constexpr std::int64_t kContext = 8, kSteps = 3;

ModelConfig config_of(const std::string& method, ModelKind architecture) {
  ModelConfig out = testing::tiny_decoder(method, kContext);
  out.architecture = architecture;
  if (architecture == ModelKind::transformer_xl)
    out.xl.dropout = 0.3;
  else
    out.moe.shared_width = 8;
  if (method == "lory") out.router.parts["lory"].set("segment_length", 4);
  return out.resolved();
}

/// The part's own tokens, in three rows. The last part has only one row.
at::Tensor tokens_of(std::int64_t step, std::int64_t part, std::int64_t parts) {
  const std::int64_t rows = part == parts - 1 ? 1 : 3;
  std::vector<std::int64_t> ids;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(rows * kContext); ++i)
    ids.push_back(static_cast<std::int64_t>(
        random_below(random_bits(1, static_cast<std::uint64_t>(10 * step + part), i), 12)));
  return torch::tensor(ids).view({rows, kContext});
}

/// Adds the gradients of one part. @return the part's loss, with the balancers' terms
double add_part(LanguageModel& model, std::int64_t step, std::int64_t part, std::int64_t parts,
                StepCounts& seen) {
  const at::Tensor tokens = tokens_of(step, part, parts);
  RoutingContext context{.step = step, .total_steps = kSteps, .training = true};
  context.generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(40 + part));
  const ModelOutput out = model.forward(
      {.tokens = tokens}, context,
      [&](std::int64_t layer, const RoutingResult& result) { seen.add(layer, result.plan); });
  at::Tensor total = model.loss(out.hidden, tokens.roll(-1, 1).flatten());
  if (out.auxiliary_loss.defined()) total = total + out.auxiliary_loss;
  total.backward();
  return total.item<double>();
}

/// Sets w ← w − gradient / 10, and moves the balancers.
void update(LanguageModel& model, StepCounts& seen) {
  const torch::NoGradGuard no_grad;
  for (at::Tensor& weight : model.parameters()) {
    if (!weight.grad().defined()) continue;
    weight.sub_(weight.grad(), 0.1);
    weight.mutable_grad() = at::Tensor();
  }
  const StepStatistics statistics = seen.take();
  for (const auto& balancer : model.balancers()) balancer->after_step(statistics);
}

struct History {
  std::vector<double> losses;  // by step and part
  std::map<std::string, at::Tensor> tensors;
};

std::map<std::string, at::Tensor> tensors_of(LanguageModel& model) {
  std::map<std::string, at::Tensor> out;
  for (const auto& item : model.named_parameters()) out[item.key()] = item.value().detach();
  for (const auto& item : model.named_buffers()) out[item.key()] = item.value();
  return out;
}

History alone(const ModelConfig& config, std::int64_t parts) {
  const auto model = testing::in_f64(config);
  History out;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    StepCounts seen;
    for (std::int64_t part = 0; part < parts; ++part)
      out.losses.push_back(add_part(*model, step, part, parts, seen));
    update(*model, seen);
  }
  out.tensors = tensors_of(*model);
  return out;
}

void expect_near(const at::Tensor& found, const at::Tensor& expected, const std::string& what) {
  const double scale = 1 + expected.abs().max().item<double>();
  EXPECT_LT((found - expected).abs().max().item<double>(), 1e-11 * scale) << what;
}

void expect_as_alone(const ModelConfig& config, const History& expected,
                     const dist::ProcessGroup& world) {
  const dist::Mesh mesh = dist::make_mesh(world, {.data = world.size(), .expert = world.size()});
  const ModelPlace place = place_in(config, mesh);
  const auto model = testing::in_f64(config, place);
  const auto slices = model_slices(config, place.part);
  const RouterShape shape{.experts = config.total_experts(), .layers = config.moe_layers()};
  auto loss = expected.losses.begin() + world.rank();
  for (std::int64_t step = 0; step < kSteps; ++step, loss += world.size()) {
    StepCounts seen;
    const double found = add_part(*model, step, world.rank(), world.size(), seen);
    EXPECT_NEAR(found, *loss, 1e-11 * (1 + std::fabs(*loss))) << world.name() << " step " << step;
    const auto sum = [&](const at::Tensor& values) {
      world.all_reduce(values, dist::Reduction::sum);
    };
    // An expert's gradient is already the sum. The other gradients are this rank's part of the sum.
    for (const auto& item : model->named_parameters())
      if (slices.at(item.key()).whole() && item.value().grad().defined()) sum(item.value().grad());
    seen.sum_with(sum, shape);
    update(*model, seen);
  }
  std::size_t divided = 0;
  for (const auto& [name, found] : tensors_of(*model)) {
    const auto slice = slices.find(name);
    const bool part = slice != slices.end() && !slice->second.whole();
    divided += part;
    const at::Tensor& whole = expected.tensors.at(name);
    expect_near(found, part ? take(whole, slice->second) : whole, name + " on " + world.name());
  }
  EXPECT_GE(divided, 4U);  // two matrices of two layers
}

class ExpertParallel : public ::testing::TestWithParam<std::string> {};

TEST_P(ExpertParallel, TrainsAsOneProcess) {
  if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
  const std::string method = GetParam();
  for (const ModelKind architecture : {ModelKind::decoder, ModelKind::transformer_xl})
    for (const int ranks : {2, 4}) {
      const ModelConfig config = config_of(method, architecture);
      const History expected = alone(config, ranks);
      testing::on_ranks(ranks, [&](const dist::ProcessGroup& world) {
        expect_as_alone(config, expected, world);
      });
    }
}

std::vector<std::string> methods_with_experts() {
  std::vector<std::string> out;
  for (const std::string& method : method_registry().names())
    if (!resolve({.method = method}).dense()) out.push_back(method);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Methods, ExpertParallel, ::testing::ValuesIn(methods_with_experts()),
                         testing::test_name);

}  // namespace
}  // namespace penstock::experts_over_ranks
