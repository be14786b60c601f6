// The exchange of tokens' rows for a plan whose experts lie on several ranks. Rows go to the ranks
// of their experts, and results come back. Not the experts' computation.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "penstock/dist/group.h"
#include "penstock/experts/exchange_rows.h"
#include "penstock/routers/routing.h"

namespace torch::autograd {
struct AutogradContext;
}

namespace penstock {

/// The assignments that arrived for a rank's experts.
struct ArrivedRows {
  at::Tensor hidden;  ///< [R, d], in the order of the sending ranks
  /// The plan for these rows and this rank's experts, without `expert`; weights carry gradients.
  Plan plan;
  at::Tensor dropout_keys;  ///< [A] i64, as ops::ExpertOptions takes them; undefined: no dropout
};

/// The exchange of one pass through one layer. The layer makes a new one for each plan. In a group
/// of e ranks, rank i has the experts [E/e·i, E/e·(i+1)). A token's row goes to a rank once, even
/// if several of the token's experts are there. One row comes back: the weighted sum of these
/// experts' outputs. No row is padded or dropped. A rank may have no tokens, and so may an expert.
/// All orders follow ranks and tokens, so the bits do not depend on which rank is first.
/// Every rank of the group makes the same calls. Cost: four exchanges forward (counts; indices and
/// weights; rows; results) and two backward (gradients of results; gradients of rows and weights).
class TokenExchange {
 public:
  /// @param plan  a plan of assignments, not a merging plan; on the CPU
  /// @param dropout_seed  seed for this rank's assignments; all ranks have one, or none has
  TokenExchange(const Plan& plan, const dist::ProcessGroup& group,
                std::optional<std::int64_t> dropout_seed = std::nullopt);

  /// Gradient: hidden and weight.
  /// @param hidden  [T, d];  @param weight  [A], the plan's
  /// @param meanwhile  as in exchange_rows(): called while the rows travel
  ArrivedRows send(const at::Tensor& hidden, const at::Tensor& weight,
                   const std::function<void()>& meanwhile = {}) const;
  /// y_t = Σ over ranks, in rank order, of the rows that come back for token t; 0 if none comes
  /// back.
  /// @param rows  [R, d] as they arrived.  @return [T, d].  Gradient: rows.
  at::Tensor bring_back(const at::Tensor& rows, const std::function<void()>& meanwhile = {}) const;

  /// The number of rows that this rank sends and receives, its own included.
  std::int64_t sent_rows() const { return routes_->sent_token.size(0); }
  std::int64_t arrived_rows() const { return routes_->plan.tokens; }

 private:
  /// State that exists before the rows are sent; kept until the backward pass.
  struct Routes : torch::CustomClassHolder {
    dist::ProcessGroup group;
    std::int64_t tokens = 0;   // T
    std::int64_t width = 0;    // d
    at::Tensor sent_token;     // [N], indices of the hidden rows to send, by rank, then token
    RowCounts sent, received;  // numbers of rows
    RowCounts asked, arrived;  // numbers of assignments sent and received
    Plan plan;                 // of the assignments that arrived
    at::Tensor order;  // [A], the position of the plan's assignment a in the order of arrival
    at::Tensor dropout_keys;     // [A], or undefined
    at::Tensor weight_gradient;  // [A of the sent plan], from the backward exchange
    std::function<at::Tensor()> under_way;

    at::Tensor rows_arrived() { return std::exchange(under_way, nullptr)(); }
  };
  class Leave;
  class Arrive;
  class Sum;
  static Routes& routes_of(torch::autograd::AutogradContext* context);
  static at::Tensor choose_rows(const Plan& plan, Routes& routes);
  static at::Tensor exchange_counts(const Plan& plan, std::int64_t dropout_seed, Routes& routes);
  static void order_by_expert(const at::Tensor& counts, const at::Tensor& row, Routes& routes);
  static at::Tensor sum_by_token(const at::Tensor& rows, const Routes& routes);

  c10::intrusive_ptr<Routes> routes_;
};

}  // namespace penstock
