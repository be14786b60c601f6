#include "penstock/experts/token_exchange.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/second_derivative.h"

namespace penstock {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The numbers of the header that one rank sends to another before the rows: the number of rows,
/// the index of the first assignment, and the seed of dropout. The number of assignments of each
/// expert follows the header.
constexpr std::int64_t kHeader = 3;

at::Tensor tensor_of(const std::vector<std::int64_t>& values) {
  return torch::tensor(values, at::kLong);
}

std::int64_t sum(const RowCounts& counts) {
  return std::accumulate(counts.begin(), counts.end(), INT64_C(0));
}

const std::int64_t* values_of(const at::Tensor& tensor) { return tensor.data_ptr<std::int64_t>(); }

/// For each rank: its rows and the weights of its assignments.
std::vector<dist::Pieces> rows_and_weights(const at::Tensor& rows, const RowCounts& row_counts,
                                           const at::Tensor& weights,
                                           const RowCounts& weight_counts) {
  const auto rows_of = rows.split_with_sizes(row_counts);
  const auto weights_of = weights.split_with_sizes(weight_counts);
  std::vector<dist::Pieces> out;
  for (std::size_t rank = 0; rank < row_counts.size(); ++rank)
    out.push_back({rows_of[rank], weights_of[rank]});
  return out;
}

/// out[rows[i]] += added[i]. `rows` names no row twice. (ATen's index_add_ takes a microsecond a
/// row.)
/// @param out  [T, d];  @param added  [n, d], of out's type, contiguous
void add_rows(const at::Tensor& out, const at::Tensor& rows, const at::Tensor& added) {
  constexpr std::int64_t kGrain = 1 << 14;  // numbers
  const std::int64_t width = out.size(1), *to = values_of(rows);
  AT_DISPATCH_FLOATING_TYPES(out.scalar_type(), "add_rows", [&] {
    auto* sums = out.data_ptr<scalar_t>();
    const auto* from = added.data_ptr<scalar_t>();
    at::parallel_for(0, rows.size(0), 1 + kGrain / std::max<std::int64_t>(1, width),
                     [=](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t i = begin; i < end; ++i)
                         for (std::int64_t j = 0; j < width; ++j)
                           sums[to[i] * width + j] += from[i * width + j];
                     });
  });
}

}  // namespace

/// The routes that the forward pass of an operation saved.
TokenExchange::Routes& TokenExchange::routes_of(AutogradContext* context) {
  return static_cast<Routes&>(*context->saved_data["routes"].toCapsule());
}

/// Starts the exchange of rows. The backward pass waits for the gradients of rows and weights.
/// Returns a token: an empty tensor that stands for the rows that travel.
class TokenExchange::Leave : public torch::autograd::Function<Leave> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden,
                            const at::Tensor& /*weight*/,
                            const c10::intrusive_ptr<Routes>& routes) {
    context->saved_data["routes"] = c10::IValue::make_capsule(routes);
    routes->under_way = routes->group.start_all_to_all(hidden.index_select(0, routes->sent_token),
                                                       routes->sent, routes->received);
    return hidden.new_empty({0});
  }
  static variable_list backward(AutogradContext* context, const variable_list&) {
    Routes& routes = routes_of(context);
    const at::Tensor rows = routes.rows_arrived();
    return {sum_by_token(rows, routes), std::exchange(routes.weight_gradient, {}), {}};
  }
};

/// Waits for the rows. The weights arrived in the constructor. The gradients of rows and weights go
/// back together. So every rank makes the same exchanges, even if ranks want different gradients.
class TokenExchange::Arrive : public torch::autograd::Function<Arrive> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& /*token*/,
                               const c10::intrusive_ptr<Routes>& routes) {
    context->saved_data["routes"] = c10::IValue::make_capsule(routes);
    return {routes->rows_arrived(), routes->plan.weight.clone()};
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    Routes& routes = routes_of(context);
    const at::Tensor weights = at::empty_like(grads[1]).index_copy_(0, routes.order, grads[1]);
    const at::Tensor rows = grads[0].new_empty({routes.sent_token.size(0), routes.width});
    routes.weight_gradient = weights.new_empty({sum(routes.asked)});
    routes.under_way =
        [rows,
         arrived = routes.group.start_all_to_all(
             rows_and_weights(rows, routes.sent, routes.weight_gradient, routes.asked),
             rows_and_weights(grads[0].contiguous(), routes.received, weights, routes.arrived))] {
          arrived();
          return rows;
        };
    return {grads[0].new_empty({0}), {}};
  }
};

/// sum_by_token() with a gradient: a token's gradient goes to each of its rows.
class TokenExchange::Sum : public torch::autograd::Function<Sum> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows,
                            const c10::intrusive_ptr<Routes>& routes) {
    context->saved_data["routes"] = c10::IValue::make_capsule(routes);
    return sum_by_token(rows, *routes);
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    return {grads[0].index_select(0, routes_of(context).sent_token), {}};
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
  // Sends row and weight side by side, as integers of the weight's size.
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

/// Fills sent, asked and sent_token.
/// @return [A], for each assignment the index of its row among the rows sent to its rank
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

/// Fills received, arrived and the plan's sizes.
/// @return [e, kHeader + E/e], the headers and counts that every rank sent to this rank
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

/// Sorts the assignments that arrived from the order (rank, expert, token) to (expert, rank,
/// token).
/// @param row  [A], the index of each assignment's row among the rows of its sender
void TokenExchange::order_by_expert(const at::Tensor& counts, const at::Tensor& row,
                                    Routes& routes) {
  const std::int64_t ranks = counts.size(0), local = routes.plan.experts;
  const std::int64_t assignments = row.size(0), rows = routes.plan.tokens;
  std::vector<std::int64_t> order, token, offsets = {0}, by_token, token_offsets(1 + rows, 0);
  // For each rank: its next assignment, and the number of rows before its rows.
  std::vector<std::int64_t> next(ranks, 0), base(ranks, 0);
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

/// Adds the rows [N, d] of each token, in rank order. A rank sends at most one row for a token, so
/// each sum has one order.
/// @param rows  [N, d], by rank
at::Tensor TokenExchange::sum_by_token(const at::Tensor& rows, const Routes& routes) {
  const auto tokens = routes.sent_token.split_with_sizes(routes.sent);
  const auto rows_of = rows.split_with_sizes(routes.sent);
  at::Tensor out = at::zeros({routes.tokens, routes.width}, rows.options());
  for (std::size_t rank = 0; rank < rows_of.size(); ++rank)
    add_rows(out, tokens[rank], rows_of[rank]);
  return out;
}

ArrivedRows TokenExchange::send(const at::Tensor& hidden, const at::Tensor& weight,
                                const std::function<void()>& meanwhile) const {
  routes_->width = hidden.size(1);
  const at::Tensor token = ops::recorded<Leave>("token exchange", hidden, weight, routes_);
  if (meanwhile) meanwhile();
  const auto arrived = ops::recorded<Arrive>("token exchange", token, routes_);
  ArrivedRows out{
      .hidden = arrived[0], .plan = routes_->plan, .dropout_keys = routes_->dropout_keys};
  out.plan.weight = arrived[1];
  return out;
}

at::Tensor TokenExchange::bring_back(const at::Tensor& rows,
                                     const std::function<void()>& meanwhile) const {
  const at::Tensor back =
      exchange_rows(rows, routes_->received, routes_->sent, routes_->group, meanwhile);
  return ops::recorded<Sum>("token exchange", back, routes_);
}

}  // namespace penstock
