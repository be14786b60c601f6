#include "penstock/train/ranks/unit_exchange.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <numeric>

#include "penstock/base/error.h"
#include "penstock/base/stopwatch.h"

namespace penstock {
namespace {

using Counts = std::vector<std::int64_t>;

/// This rank's gradients of the spans that rank `rank` adds up, for all its nodes; zeros if it has
/// none.
dist::Pieces sent_to(int rank, const ParameterUnit& unit,
                     const std::vector<GradientTree::Node>& mine, std::int64_t nodes,
                     const at::TensorOptions& options) {
  if (mine.empty()) return {at::zeros({nodes * unit.elements(rank)}, options)};
  dist::Pieces out;
  for (const GradientTree::Node& node : mine)
    for (const Span& span : unit.spans[static_cast<std::size_t>(rank)])
      out.push_back(span_of(node.gradients, span));
  return out;
}

}  // namespace

at::Tensor span_of(const UnitTensors& whole, const Span& span) {
  return whole[span.parameter].view(-1).slice(0, span.begin, span.end);
}

void UnitExchange::sum(const ParameterUnit& unit, const std::vector<std::vector<PartRange>>& nodes,
                       const std::vector<GradientTree::Node>& mine,
                       const at::TensorOptions& options, GradientTree& spans) {
  const torch::NoGradGuard no_grad;
  const int ranks = group_.size(), me = group_.rank();
  const auto& own = nodes[static_cast<std::size_t>(me)];
  PENSTOCK_ASSERT(mine.empty() || mine.size() == own.size());
  Counts receive;  // elements
  for (int rank = 0; rank < ranks; ++rank)
    receive.push_back(
        rank == me ? 0 : std::ssize(nodes[static_cast<std::size_t>(rank)]) * unit.elements(me));
  at::Tensor received;
  if (ranks > 1) {
    received = at::empty({std::accumulate(receive.begin(), receive.end(), INT64_C(0))}, options);
    std::vector<dist::Pieces> sent, arriving;
    for (const at::Tensor& of_rank : received.split_with_sizes(receive))
      arriving.push_back({of_rank});
    for (int rank = 0; rank < ranks; ++rank)
      sent.push_back(rank == me ? dist::Pieces()
                                : sent_to(rank, unit, mine, std::ssize(own), options));
    const Stopwatch watch;
    group_.start_all_to_all(arriving, sent)();
    seconds_ += watch.seconds();
  }
  const auto& kept = unit.spans[static_cast<std::size_t>(me)];
  // A received tensor of more than one node must be freed after this sum, so its nodes are
  // borrowed.
  const bool many = received.defined() && received.numel() > unit.elements(me);
  std::int64_t from = 0;
  for (int rank = 0; rank < ranks; from += receive[static_cast<std::size_t>(rank)], ++rank) {
    std::int64_t place = from;
    if (rank == me) continue;
    for (const PartRange& range : nodes[static_cast<std::size_t>(rank)]) {
      GradientTree::Node node{.range = range, .borrowed = many};
      for (const Span& span : kept) {
        node.gradients.push_back(received.slice(0, place, place + span.size()));
        place += span.size();
      }
      spans.add(std::move(node));
    }
  }
  for (const GradientTree::Node& whole : mine) {
    GradientTree::Node node{.range = whole.range, .borrowed = true};
    for (const Span& span : kept) node.gradients.push_back(span_of(whole.gradients, span));
    spans.add(std::move(node));
  }
  spans.settle();
}

void UnitExchange::gather(const ParameterUnit& unit, const UnitTensors& mine,
                          const UnitTensors& whole) {
  const torch::NoGradGuard no_grad;
  const int ranks = group_.size();
  std::vector<dist::Pieces> received;
  for (int rank = 0; rank < ranks; ++rank) {
    received.emplace_back();
    for (const Span& span : unit.spans[static_cast<std::size_t>(rank)])
      received.back().push_back(span_of(whole, span));
  }
  const Stopwatch watch;
  group_.all_gather(received, mine);
  if (ranks > 1) seconds_ += watch.seconds();
}

}  // namespace penstock
