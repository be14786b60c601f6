// Experts that lie on several ranks: outputs and every gradient equal those of one process with all
// experts, for plans of any kind, and repeat bit for bit.
#include "tests/dist/ranks.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "penstock/base/error.h"
#include "penstock/experts/experts.h"
#include "penstock/experts/token_exchange.h"
#include "tests/base/error_of.h"

namespace penstock::experts_over_ranks {
namespace {

using testing::on_ranks;

constexpr std::int64_t kExperts = 8, kWidth = 6, kInner = 5;
constexpr double kClose = 1e-12;

/// The inputs of one rank.
struct Share {
  at::Tensor hidden, gates;  // [T, d], [T, E]; leaves
  at::Tensor mask;           // [T, E]; undefined: a merge plan with segments of two tokens
  at::Tensor probe;          // [T, d], gradient of the output

  Share fresh() const {
    return {hidden.detach().clone().requires_grad_(), gates.detach().clone().requires_grad_(), mask,
            probe};
  }
  Plan plan() const {
    return mask.defined() ? make_plan(gates, mask)
                          : make_merge_plan(gates.softmax(1), hidden.size(0), 2);
  }
};

using Mask = std::function<at::Tensor(std::int64_t tokens, std::int64_t rank)>;

/// The inputs of all ranks, with another number of tokens on each. If `empty_rank`, the last rank
/// has no tokens.
std::vector<Share> shares(std::int64_t ranks, const Mask& mask, bool empty_rank = false) {
  torch::manual_seed(3);
  std::vector<Share> out;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t tokens = empty_rank && rank == ranks - 1 ? 0 : 6 + 2 * rank;
    const auto random = [](at::IntArrayRef sizes) { return torch::randn(sizes, at::kDouble); };
    const at::Tensor chosen = mask ? mask(tokens, rank) : at::Tensor();
    out.push_back({random({tokens, kWidth}), random({mask ? tokens : tokens / 2, kExperts}), chosen,
                   random({tokens, kWidth})});
  }
  return out;
}

std::shared_ptr<Experts> experts_of(const FfnForm& form, const dist::ProcessGroup& group = {}) {
  auto out = std::make_shared<Experts>(kExperts, kWidth, kInner, form, group);
  out->to(at::kDouble);
  out->initialize(0.7, 0.6, InitialDraws(5));
  const torch::NoGradGuard no_grad;
  for (auto& item : out->named_parameters()) {
    if (item.value().dim() > 2) continue;  // biases depend on the expert and the position
    const std::int64_t rows = item.value().size(0);
    item.value().copy_(at::arange(group.rank() * rows, (group.rank() + 1) * rows, at::kDouble)
                           .unsqueeze(1)
                           .add(at::arange(item.value().size(1), at::kDouble).mul(0.37))
                           .sin());
  }
  return out;
}

struct Outcome {
  at::Tensor y, hidden, gates;
};

Outcome pass(Experts& experts, const Share& given, std::int64_t rank) {
  const Share share = given.fresh();
  const at::Tensor y = experts.forward(share.hidden, share.plan(), 100 + rank);
  y.backward(share.probe);
  return {y.detach(), share.hidden.grad(), share.gates.grad()};
}

void expect_near(const at::Tensor& found, const at::Tensor& expected, const std::string& what) {
  ASSERT_EQ(found.sizes(), expected.sizes()) << what;
  if (found.numel() == 0) return;
  EXPECT_LT((found - expected).abs().max().item<double>(),
            kClose * (1 + expected.abs().max().item<double>()))
      << what;
}

/// Compares one pass of every rank with one process that runs the passes of all ranks in turn.
void expect_as_one_process(const std::vector<Share>& given, const FfnForm& form,
                           const std::string& what) {
  const auto whole = experts_of(form);
  std::vector<Outcome> expected;
  for (std::size_t rank = 0; rank < given.size(); ++rank)
    expected.push_back(pass(*whole, given[rank], static_cast<std::int64_t>(rank)));
  const auto of_all = whole->named_parameters();
  on_ranks(static_cast<int>(given.size()), [&](const dist::ProcessGroup& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    const std::string where = what + " on " + group.name();
    const auto mine = experts_of(form, group);
    const Outcome found = pass(*mine, given[rank], group.rank());
    expect_near(found.y, expected[rank].y, where + ": y");
    expect_near(found.hidden, expected[rank].hidden, where + ": hidden");
    expect_near(found.gates, expected[rank].gates, where + ": gates");
    for (const auto& item : mine->named_parameters()) {
      const at::Tensor gradient = of_all[item.key()].grad();
      const std::int64_t held = kExperts / group.size();
      expect_near(item.value().grad(), gradient.narrow(0, group.rank() * held, held),
                  where + ": " + item.key());
    }
  });
}

class ExpertRanks : public testing::RanksTest<> {};

const FfnForm kGated = {};
const FfnForm kPlain = {.activation = ops::Activation::relu, .bias = true, .dropout = 0.4};

at::Tensor random_mask(std::int64_t tokens, double density) {
  return torch::rand({tokens, kExperts}) < density;
}

TEST_F(ExpertRanks, ComputeWhatOneProcessDoesForPlansOfAnyKind) {
  const std::vector<std::pair<std::string, Mask>> masks = {
      {"half of all pairs",
       [](std::int64_t tokens, std::int64_t) { return random_mask(tokens, 0.5); }},
      {"all pairs", [](std::int64_t tokens, std::int64_t) { return random_mask(tokens, 2); }},
      {"none", [](std::int64_t tokens, std::int64_t) { return random_mask(tokens, -1); }},
      {"one busy expert",
       [](std::int64_t tokens, std::int64_t) {
         at::Tensor out = random_mask(tokens, -1);
         out.select(1, 5).fill_(true);
         return out;
       }},
      {"each rank's own experts",
       [](std::int64_t tokens, std::int64_t rank) {
         at::Tensor out = random_mask(tokens, -1);
         out.slice(1, 2 * rank, 2 * rank + 2).fill_(true);
         return out;
       }},
      {"experts that choose one token each", [](std::int64_t tokens, std::int64_t) {
         at::Tensor out = random_mask(tokens, -1);
         if (tokens > 0) out.select(0, tokens - 1).fill_(true);
         return out;
       }}};
  for (const int ranks : {2, 4})
    for (const auto& [name, mask] : masks)
      for (const bool empty_rank : {false, true})
        for (const FfnForm& form : {kGated, kPlain})
          expect_as_one_process(shares(ranks, mask, empty_rank), form,
                                concat(name, empty_rank ? ", a rank without tokens" : ""));
}

TEST_F(ExpertRanks, BlendWhatOneProcessDoes) {
  for (const int ranks : {2, 4})
    for (const bool empty_rank : {false, true})
      for (const FfnForm& form : {kGated, kPlain})
        expect_as_one_process(shares(ranks, {}, empty_rank), form, "blends");
}

TEST_F(ExpertRanks, RepeatBitForBit) {
  const auto given =
      shares(4, [](std::int64_t tokens, std::int64_t) { return random_mask(tokens, 0.6); });
  std::vector<at::Tensor> first(4);
  for (int again = 0; again < 3; ++again)
    on_ranks(4, [&](const dist::ProcessGroup& group) {
      const auto rank = static_cast<std::size_t>(group.rank());
      const auto mine = experts_of(kGated, group);
      const Outcome found = pass(*mine, given[rank], group.rank());
      const at::Tensor all =
          at::cat({found.y.flatten(), found.hidden.flatten(), found.gates.flatten(),
                   mine->gate_up().grad().flatten(), mine->down().grad().flatten()});
      if (again == 0)
        first[rank] = all;
      else
        EXPECT_TRUE(torch::equal(all, first[rank])) << rank;
    });
}

TEST_F(ExpertRanks, SendATokenToARankOnce) {
  on_ranks(2, [](const dist::ProcessGroup& group) {
    // Four tokens. The first takes three experts of rank 0, the second one expert of each rank, the
    // third all experts, and the last none.
    at::Tensor mask = at::zeros({4, kExperts}, at::kBool);
    mask[0].slice(0, 0, 3).fill_(true);
    mask[1][3] = true;
    mask[1][7] = true;
    mask[2].fill_(true);
    const Plan plan = make_plan(at::ones({4, kExperts}, at::kDouble), mask);
    const TokenExchange exchange(plan, group);
    EXPECT_EQ(exchange.sent_rows(), 5);
    EXPECT_EQ(exchange.arrived_rows(), group.rank() == 0 ? 6 : 4);
    const at::Tensor hidden = at::arange(4, at::kDouble).unsqueeze(1).add(10 * group.rank());
    const ArrivedRows arrived = exchange.send(hidden, plan.weight);
    EXPECT_EQ(arrived.plan.assignments(), group.rank() == 0 ? 16 : 10);
    const at::Tensor rows = group.rank() == 0 ? torch::tensor({0., 1., 2., 10., 11., 12.})
                                              : torch::tensor({1., 2., 11., 12.});
    EXPECT_TRUE(torch::equal(arrived.hidden.squeeze(1), rows.to(at::kDouble)));
    const at::Tensor back = exchange.bring_back(arrived.hidden);
    EXPECT_TRUE(
        torch::equal(back, hidden * torch::tensor({1., 2., 2., 0.}, at::kDouble).unsqueeze(1)));
  });
}

/// The given functions run while rows travel, forward and backward: the group refuses operations
/// during that time.
TEST_F(ExpertRanks, LetOthersComputeWhileRowsTravel) {
  const auto given =
      shares(2, [](std::int64_t tokens, std::int64_t) { return random_mask(tokens, 0.5); });
  on_ranks(2, [&](const dist::ProcessGroup& group) {
    const Share share = given[static_cast<std::size_t>(group.rank())].fresh();
    const auto experts = experts_of(kGated, group);
    std::vector<std::string> seen;
    const auto under_way = [&](const std::string& what) {
      try {
        group.barrier(what);
        seen.push_back(what + " beside nothing");
      } catch (const AssertionError&) {
        seen.push_back(what);
      }
    };
    const at::Tensor other = torch::ones({3}, at::kDouble).requires_grad_();
    at::Tensor out;
    const auto passes = [&](const std::string& name, const at::Tensor& x) {
      under_way(name);
      out = x * 2;
      out.register_hook([=](const at::Tensor&) { under_way(name + ", backward"); });
    };
    const at::Tensor y = experts->forward(share.hidden, share.plan(), std::nullopt,
                                          {.rows_leave = [&] { passes("rows", other); },
                                           .results_return = [&] { passes("results", out); }});
    (y.sum() + out.sum()).backward();
    under_way("afterwards");
    EXPECT_EQ(seen, (std::vector<std::string>{"rows", "results", "results, backward",
                                              "rows, backward", "afterwards beside nothing"}));
    EXPECT_TRUE(other.grad().eq(4).all().item<bool>());
  });
}

TEST_F(ExpertRanks, DrawTheirRowsOfTheInitialWeights) {
  const auto whole = experts_of(kGated);
  on_ranks(4, [&](const dist::ProcessGroup& group) {
    const auto mine = experts_of(kGated, group);
    EXPECT_EQ(mine->count(), kExperts);
    EXPECT_TRUE(torch::equal(mine->gate_up(), whole->gate_up().narrow(0, 2 * group.rank(), 2)));
    EXPECT_TRUE(torch::equal(mine->down(), whole->down().narrow(0, 2 * group.rank(), 2)));
  });
}

TEST_F(ExpertRanks, RefuseAnUnevenShare) {
  on_ranks(3, [](const dist::ProcessGroup& group) {
    EXPECT_EQ(testing::error_of([&] { Experts(kExperts, kWidth, kInner, {}, group); }),
              "8 experts cannot be shared evenly by 3 ranks; take a number of ranks that divides "
              "them");
  });
}

}  // namespace
}  // namespace penstock::experts_over_ranks
