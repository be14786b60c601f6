#include "penstock/layers/rank_rows.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include <utility>

#include "penstock/base/error.h"
#include "penstock/ops/second_derivative.h"
#include "penstock/ops/slice.h"

namespace penstock {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor summed(const at::Tensor& x, const dist::ProcessGroup& group) {
  at::Tensor out = x.detach().clone(at::MemoryFormat::Contiguous);
  group.all_reduce(out, dist::Reduction::sum);
  return out;
}

/// [.., d] as [rows, d].
at::Tensor as_rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

/// This rank's part of the rows. Parts differ by at most one row. They need not be equal if every
/// rank holds all rows.
IndexRange own_rows(std::int64_t rows, const dist::ProcessGroup& group) {
  const auto first = [&](int rank) { return rows * rank / group.size(); };
  return {first(group.rank()), first(group.rank() + 1)};
}

/// Gathers the rows [N/t, d] of every rank as [N, d].
at::Tensor gathered(const at::Tensor& held, const dist::ProcessGroup& group) {
  return group.all_gather(as_rows(held).contiguous()).flatten(0, 1);
}

/// Sums parts [.., d] of all N rows over ranks. Returns this rank's N/t rows of the sum.
at::Tensor summed_rows(const at::Tensor& parts, const dist::ProcessGroup& group) {
  const at::Tensor rows = as_rows(parts).contiguous();
  PENSTOCK_ASSERT(rows.size(0) % group.size() == 0, rows.size(0));
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(group.size()),
                                         rows.size(0) / group.size());
  return group.reduce_scatter(rows, counts);
}

/// Returns `total`, which has no graph, in place of x. Gradient: x, unchanged.
class Sum : public torch::autograd::Function<Sum> {
 public:
  static at::Tensor forward(AutogradContext*, const at::Tensor& /*x*/, const at::Tensor& total) {
    return total;
  }
  static variable_list backward(AutogradContext*, const variable_list& gradients) {
    return {gradients[0], {}};
  }
};

/// The ranks that a backward pass communicates with.
struct Peers : torch::CustomClassHolder {
  explicit Peers(dist::ProcessGroup ranks) : group(std::move(ranks)) {}
  dist::ProcessGroup group;

  static const Peers& of(AutogradContext* context, const c10::intrusive_ptr<Peers>& peers) {
    context->saved_data["peers"] = c10::IValue::make_capsule(peers);
    return *peers;
  }
  static c10::intrusive_ptr<torch::CustomClassHolder> of(AutogradContext* context) {
    return context->saved_data["peers"].toCapsule();
  }
};

/// Forward: gathers the divided rows of all ranks. Backward: sums the gradients over ranks, and
/// gives each rank those of its rows.
class Gather : public torch::autograd::Function<Gather> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& held,
                            const c10::intrusive_ptr<Peers>& peers) {
    return gathered(held, Peers::of(context, peers).group);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto peers = Peers::of(context);
    return {summed_rows(gradients[0], static_cast<const Peers&>(*peers).group), {}};
  }
};

/// Forward: sums the parts over ranks, and gives each rank its rows of the sum. Backward: gathers
/// the gradients of all rows for each part.
class Scatter : public torch::autograd::Function<Scatter> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& parts,
                            const c10::intrusive_ptr<Peers>& peers) {
    context->saved_data["sizes"] = parts.sizes();
    return summed_rows(parts, Peers::of(context, peers).group);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto peers = Peers::of(context);
    const at::Tensor all = gathered(gradients[0], static_cast<const Peers&>(*peers).group);
    return {all.view(context->saved_data["sizes"].toIntVector()), {}};
  }
};

}  // namespace

at::Tensor shared_by_ranks(const at::Tensor& x, const dist::ProcessGroup& group) {
  if (group.size() == 1 || !x.requires_grad()) return x;
  const at::Tensor out = x.view_as(x);
  out.register_hook([group](const at::Tensor& gradient) { return summed(gradient, group); });
  return out;
}

RankRows::RankRows(dist::ProcessGroup ranks, bool divided)
    : ranks_(std::move(ranks)), divided_(divided && ranks_.size() > 1) {}

std::vector<std::int64_t> RankRows::sizes(std::int64_t sequences, std::int64_t length,
                                          std::int64_t width) const {
  if (divided_) return {sequences * length / ranks_.size(), width};
  return {sequences, length, width};
}

at::Tensor RankRows::enter(const at::Tensor& held) const {
  if (divided_)
    return ops::recorded<Gather>("gathered rows", held, c10::make_intrusive<Peers>(ranks_));
  return shared_by_ranks(held, ranks_);
}

at::Tensor RankRows::alike(const at::Tensor& entered) const {
  if (ranks_.size() == 1 || !entered.requires_grad()) return entered;
  const at::Tensor out = entered.view_as(entered);
  out.register_hook([own = own_rows(entered.size(0), ranks_)](const at::Tensor& gradient) {
    at::Tensor of_own = torch::zeros_like(gradient);
    of_own.narrow(0, own.first, own.size()).copy_(gradient.narrow(0, own.first, own.size()));
    return of_own;
  });
  return out;
}

at::Tensor RankRows::leave(const at::Tensor& parts) const {
  if (divided_)
    return ops::recorded<Scatter>("scattered rows", parts, c10::make_intrusive<Peers>(ranks_));
  return ranks_.size() == 1 ? parts
                            : ops::recorded<Sum>("summed rows", parts, summed(parts, ranks_));
}

at::Tensor RankRows::held(const at::Tensor& all) const {
  if (!divided_) return all;
  PENSTOCK_ASSERT(all.numel() % ranks_.size() == 0, all.numel());
  const IndexRange own = own_rows(all.numel(), ranks_);
  return all.flatten().narrow(0, own.first, own.size());
}

at::Tensor RankRows::mean(const at::Tensor& of_held) const {
  if (!divided_) return of_held;
  const at::Tensor mine = of_held / ranks_.size();
  return ops::recorded<Sum>("summed rows", mine, summed(mine, ranks_));
}

}  // namespace penstock
