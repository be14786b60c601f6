#include "penstock/train/unit_exchange.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "penstock/base/error.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;
using Counts = std::vector<std::int64_t>;

std::byte* bytes_of(const at::Tensor& values) { return static_cast<std::byte*>(values.data_ptr()); }

/// Of tensors of the same type that lie one after the other in `flat`, from element `at` on.
void copy_from(const at::Tensor& flat, std::int64_t at, const at::Tensor& to) {
  const auto size = static_cast<std::int64_t>(to.element_size());
  if (to.numel() > 0) std::memcpy(bytes_of(to), bytes_of(flat) + at * size, to.nbytes());
}
void copy_to(const at::Tensor& from, const at::Tensor& flat, std::int64_t at) {
  const auto size = static_cast<std::int64_t>(from.element_size());
  if (from.numel() > 0) std::memcpy(bytes_of(flat) + at * size, bytes_of(from), from.nbytes());
}

/// Elements that one rank sends another for that many nodes: never none, for which carriers differ.
std::int64_t sent_elements(std::size_t nodes, std::int64_t elements) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(nodes) * elements);
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
  Counts send, receive;
  std::int64_t total = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    send.push_back(rank == me ? 0 : sent_elements(own.size(), unit.elements(rank)));
    receive.push_back(rank == me ? 0 : sent_elements(nodes[r].size(), unit.elements(me)));
    total += send.back();
  }
  at::Tensor received;
  if (ranks > 1) {
    const at::Tensor sent =
        mine.empty() ? at::zeros({total}, options) : at::empty({total}, options);
    std::int64_t to = 0;
    for (int rank = 0; rank < ranks; to += send[static_cast<std::size_t>(rank)], ++rank) {
      std::int64_t place = to;
      if (rank == me) continue;
      for (const GradientTree::Node& node : mine)
        for (const Span& span : unit.spans[static_cast<std::size_t>(rank)]) {
          copy_to(span_of(node.gradients, span), sent, place);
          place += span.size();
        }
    }
    const auto start = Clock::now();
    received = group_.all_to_all(sent, send, receive);
    seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
  }
  const auto& kept = unit.spans[static_cast<std::size_t>(me)];
  // A tensor that holds more than one node is not to outlive this sum.
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
  const int ranks = group_.size(), me = group_.rank();
  std::int64_t slot = 1;  // elements of a rank; all are alike, as an all-gather asks for
  for (int rank = 0; rank < ranks; ++rank) slot = std::max(slot, unit.elements(rank));
  const auto& kept = unit.spans[static_cast<std::size_t>(me)];
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const at::Tensor place = span_of(whole, kept[i]);
    if (place.data_ptr() != mine[i].data_ptr()) copy_from(mine[i], 0, place);
  }
  if (ranks == 1) return;
  const at::Tensor sent = at::empty({slot}, whole.front().options());
  std::int64_t at = 0;
  for (const at::Tensor& tensor : mine) {
    copy_to(tensor, sent, at);
    at += tensor.numel();
  }
  if (at < slot) sent.slice(0, at).zero_();
  const auto start = Clock::now();
  const at::Tensor all = group_.all_gather(sent);
  seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == me) continue;
    std::int64_t from = rank * slot;
    for (const Span& span : unit.spans[static_cast<std::size_t>(rank)]) {
      copy_from(all, from, span_of(whole, span));
      from += span.size();
    }
  }
}

}  // namespace penstock
