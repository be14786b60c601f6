#include "penstock/experts/token_exchange.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include <numeric>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"

namespace penstock {
namespace {

/// Of what one rank says to another before rows go: rows, the first of the assignments, the seed of
/// their dropout; then assignments of each expert.
constexpr std::int64_t kHeader = 3;

at::Tensor tensor_of(const std::vector<std::int64_t>& values) {
  return torch::tensor(values, at::kLong);
}

const std::int64_t* values_of(const at::Tensor& tensor) { return tensor.data_ptr<std::int64_t>(); }

}  // namespace

/// Rows there and their gradients back, and the same of the weights, which travelled before. In one
/// function, so that every rank makes both exchanges, in this order, whichever gradient it wants.
class TokenExchange::Send : public torch::autograd::Function<Send> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const at::Tensor& hidden, const at::Tensor&,
                                                const c10::intrusive_ptr<Routes>& routes) {
    context->saved_data["routes"] = c10::IValue::make_capsule(routes);
    return {routes->group.all_to_all(hidden.index_select(0, routes->sent_token), routes->sent,
                                     routes->received),
            routes->plan.weight.clone()};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto held = context->saved_data["routes"].toCapsule();
    const auto& routes = static_cast<const Routes&>(*held);
    const at::Tensor rows =
        routes.group.all_to_all(grads[0].contiguous(), routes.received, routes.sent);
    const at::Tensor arrived = at::empty_like(grads[1]).index_copy_(0, routes.order, grads[1]);
    return {sum_by_token(rows, routes),
            routes.group.all_to_all(arrived, routes.arrived, routes.asked),
            {}};
  }
};

TokenExchange::TokenExchange(const Plan& plan, const dist::ProcessGroup& group,
                             std::optional<std::int64_t> dropout_seed)
    : routes_(c10::make_intrusive<Routes>()) {
  PENSTOCK_ASSERT(!plan.merges() && plan.experts % group.size() == 0);
  Routes& routes = *routes_;
  routes.group = group;
  routes.tokens = plan.tokens;
  const at::Tensor row = choose_rows(plan, routes);
  const at::Tensor counts = exchange_counts(plan, dropout_seed.value_or(0), routes);
  // Row and weight side by side, as words of the weight's size.
  const at::Tensor weight = plan.weight.detach().contiguous();
  const auto word = weight.element_size() == sizeof(std::int64_t) ? at::kLong : at::kInt;
  const at::Tensor arrived = group.all_to_all(at::stack({row.to(word), weight.view(word)}, 1),
                                              routes.asked, routes.arrived);
  order_by_expert(counts, arrived.select(1, 0).to(at::kLong).contiguous(), routes);
  routes.plan.weight =
      arrived.select(1, 1).contiguous().view(weight.scalar_type()).index_select(0, routes.order);
  if (!dropout_seed) return;
  std::vector<at::Tensor> keys;
  for (std::size_t from = 0; from < routes.arrived.size(); ++from) {
    const auto* said = values_of(counts) + static_cast<std::int64_t>(from) * counts.size(1);
    keys.push_back(ops::dropout_keys(said[2], said[1], routes.arrived[from]));
  }
  routes.dropout_keys = at::cat(keys).index_select(0, routes.order);
}

/// Fills what is sent. @return [A], which of the rows sent to its rank each assignment means
at::Tensor TokenExchange::choose_rows(const Plan& plan, Routes& routes) {
  const auto ranks = static_cast<std::size_t>(routes.group.size());
  const std::int64_t local = plan.experts / routes.group.size();
  const auto *experts = values_of(plan.expert), *by_token = values_of(plan.by_token),
             *token_offsets = values_of(plan.token_offsets), *offsets = values_of(plan.offsets);
  std::vector<std::vector<std::int64_t>> tokens(ranks);  // by rank
  at::Tensor row = at::empty({plan.assignments()}, at::kLong);
  for (std::int64_t t = 0; t < plan.tokens; ++t)
    for (std::int64_t i = token_offsets[t]; i < token_offsets[t + 1]; ++i) {
      auto& of_rank = tokens[static_cast<std::size_t>(experts[by_token[i]] / local)];
      if (of_rank.empty() || of_rank.back() != t) of_rank.push_back(t);
      row.data_ptr<std::int64_t>()[by_token[i]] = std::ssize(of_rank) - 1;
    }
  std::vector<std::int64_t> all;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    all.insert(all.end(), tokens[rank].begin(), tokens[rank].end());
    routes.sent.push_back(std::ssize(tokens[rank]));
    const auto first = static_cast<std::int64_t>(rank) * local;
    routes.asked.push_back(offsets[first + local] - offsets[first]);
  }
  routes.sent_token = tensor_of(all);
  return row;
}

/// Fills what arrives. @return [e, kHeader + E/e], what every rank says to this one
at::Tensor TokenExchange::exchange_counts(const Plan& plan, std::int64_t dropout_seed,
                                          Routes& routes) {
  const std::int64_t ranks = routes.group.size(), local = plan.experts / ranks;
  const auto* offsets = values_of(plan.offsets);
  at::Tensor said = at::empty({ranks, kHeader + local}, at::kLong);
  auto* to = said.data_ptr<std::int64_t>();
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const auto* of_rank = offsets + rank * local;
    *to++ = routes.sent[static_cast<std::size_t>(rank)];
    *to++ = of_rank[0];
    *to++ = dropout_seed;
    for (std::int64_t e = 0; e < local; ++e) *to++ = of_rank[e + 1] - of_rank[e];
  }
  const RowCounts one(static_cast<std::size_t>(ranks), 1);
  const at::Tensor counts = routes.group.all_to_all(said, one, one);
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const auto* from = values_of(counts) + rank * counts.size(1);
    routes.received.push_back(from[0]);
    routes.arrived.push_back(std::accumulate(from + kHeader, from + counts.size(1), INT64_C(0)));
    routes.plan.tokens += from[0];
  }
  routes.plan.experts = local;
  return counts;
}

/// Sorts what arrived, which is in the order of (rank, expert, token), by (expert, rank, token).
/// @param row  [A], of the rows from its rank
void TokenExchange::order_by_expert(const at::Tensor& counts, const at::Tensor& row,
                                    Routes& routes) {
  const std::int64_t ranks = counts.size(0), local = routes.plan.experts;
  const std::int64_t assignments = row.size(0), rows = routes.plan.tokens;
  std::vector<std::int64_t> order, token, offsets = {0}, by_token, token_offsets(1 + rows, 0);
  std::vector<std::int64_t> next(ranks, 0), base(ranks, 0);  // assignment and row, by rank
  for (std::int64_t rank = 1; rank < ranks; ++rank) {
    const auto before = static_cast<std::size_t>(rank - 1);
    next[rank] = next[before] + routes.arrived[before];
    base[rank] = base[before] + routes.received[before];
  }
  for (std::int64_t e = 0; e < local; ++e) {
    for (std::int64_t rank = 0; rank < ranks; ++rank)
      for (auto n = values_of(counts)[rank * counts.size(1) + kHeader + e]; n > 0; --n) {
        order.push_back(next[rank]);
        token.push_back(base[rank] + values_of(row)[next[rank]++]);
        ++token_offsets[1 + token.back()];
      }
    offsets.push_back(std::ssize(order));
  }
  std::partial_sum(token_offsets.begin(), token_offsets.end(), token_offsets.begin());
  by_token.resize(static_cast<std::size_t>(assignments));
  std::vector<std::int64_t> place(token_offsets.begin(), token_offsets.end() - 1);
  for (std::int64_t a = 0; a < assignments; ++a) by_token[place[token[a]]++] = a;
  routes.order = tensor_of(order);
  routes.plan.token = tensor_of(token);
  routes.plan.offsets = tensor_of(offsets);
  routes.plan.by_token = tensor_of(by_token);
  routes.plan.token_offsets = tensor_of(token_offsets);
}

/// A rank has a token once, so each sum has one order.
at::Tensor TokenExchange::sum_by_token(const at::Tensor& rows, const Routes& routes) {
  at::Tensor out = at::zeros({routes.tokens, rows.size(1)}, rows.options());
  std::int64_t first = 0;
  for (const std::int64_t count : routes.sent) {
    out.index_add_(0, routes.sent_token.narrow(0, first, count), rows.narrow(0, first, count));
    first += count;
  }
  return out;
}

ArrivedRows TokenExchange::send(const at::Tensor& hidden, const at::Tensor& weight) const {
  const auto sent = Send::apply(hidden, weight, routes_);
  ArrivedRows out{.hidden = sent[0], .plan = routes_->plan, .dropout_keys = routes_->dropout_keys};
  out.plan.weight = sent[1];
  return out;
}

at::Tensor TokenExchange::bring_back(const at::Tensor& rows) const {
  return sum_by_token(exchange_rows(rows, routes_->received, routes_->sent, routes_->group),
                      *routes_);
}

}  // namespace penstock
