#include "penstock/train/checkpoints/share_exchange.h"

#include <torch/types.h>

#include <algorithm>

#include "penstock/base/error.h"

namespace penstock {
namespace {

constexpr std::int64_t kNumbersInATurn = 16 << 20;  // of 4 bytes

/// The live tensor, if that rank has all of it; else undefined.
at::Tensor own_alias(int rank, const TensorShare& share, int kind, const HeldState& held) {
  if (share.slices.size() > 1) return {};
  const SharedSlice& slice = share.slices.front();
  const auto& ranges = kind == 0 ? slice.weights : slice.moments;
  if (ranges.size() > 1 || ranges.front().rank != rank) return {};
  return held.numbers(share.name, kind, ranges.front().begin, ranges.front().end).view(share.shape);
}

void keep(CheckpointShare& out, const TensorShare& share, int kind, const at::Tensor& whole) {
  const char* const prefix = kind == 1 ? "m." : "v.";
  (kind == 0 ? out.model[share.name] : out.optimizer[prefix + share.name]) = whole;
}

/// The part of the whole tensor that the slice is, if its numbers lie one after another there; else
/// undefined.
at::Tensor part_in_place(const at::Tensor& whole, const Slice& slice) {
  const auto apart = [](const auto& ranges) { return ranges.size() != 1; };
  if (std::ranges::any_of(slice.ranges, apart)) return {};
  const at::Tensor out = take(whole, slice);
  return out.is_contiguous() ? out : at::Tensor();
}

/// One exchange of some tensors.
class Turn {
 public:
  Turn(const dist::ProcessGroup& world, const HeldState& held, CheckpointShare& out)
      : world_(world),
        held_(held),
        out_(out),
        received_(static_cast<std::size_t>(world.size())),
        sent_(received_) {}

  void add(const TensorShare& share, int kind) {
    const bool mine = share.owner == world_.rank();
    at::Tensor whole = mine ? own_alias(world_.rank(), share, kind, held_) : at::Tensor();
    const bool complete = whole.defined();
    if (mine && !complete) whole = at::empty(share.shape, held_.options(share.name, kind));
    for (const SharedSlice& slice : share.slices)
      if (!complete) add(share, kind, slice, whole);
    if (mine) keep(out_, share, kind, whole);
  }

  void exchange() {
    world_.start_all_to_all(received_, sent_)();
    for (const auto& [whole, slice, part] : puts_) put(whole, *slice, part);
  }

 private:
  struct Put {
    at::Tensor whole;
    const Slice* slice;
    at::Tensor part;
  };

  void add(const TensorShare& share, int kind, const SharedSlice& slice, const at::Tensor& whole) {
    const auto& ranges = kind == 0 ? slice.weights : slice.moments;
    const auto held = [&](const HeldRange& range) {
      return held_.numbers(share.name, kind, range.begin, range.end);
    };
    const auto here = [this](const HeldRange& range) { return range.rank == world_.rank(); };
    if (!whole.defined()) {
      for (const HeldRange& range : ranges)
        if (here(range)) sent_[static_cast<std::size_t>(share.owner)].push_back(held(range));
      return;
    }
    if (ranges.size() == 1 && here(ranges.front()))
      return put(whole, slice.slice, held(ranges.front()).view(slice.slice.part_shape()));
    const at::Tensor flat = room_for(whole, slice.slice).view(-1);
    for (const HeldRange& range : ranges) {
      const at::Tensor place = flat.slice(0, range.begin, range.end);
      if (here(range)) {
        place.copy_(held(range));
      } else {
        received_[static_cast<std::size_t>(range.rank)].push_back(place);
        out_.received_bytes += static_cast<std::int64_t>(place.nbytes());
      }
    }
  }

  /// Contiguous memory for a slice that arrives: its place in the whole tensor, or memory from
  /// which exchange() puts it there.
  at::Tensor room_for(const at::Tensor& whole, const Slice& slice) {
    at::Tensor out = part_in_place(whole, slice);
    if (out.defined()) return out;
    out = at::empty(slice.part_shape(), whole.options());
    puts_.push_back({whole, &slice, out});
    return out;
  }

  const dist::ProcessGroup& world_;
  const HeldState& held_;
  CheckpointShare& out_;
  std::vector<dist::Pieces> received_, sent_;
  std::vector<Put> puts_;
};

}  // namespace

HeldState::HeldState(const std::vector<FilePart>& parts, const TensorMap& held,
                     const std::vector<OptimizerPiece>& pieces, const OptimizerConfig& optimizer)
    : optimizer_(optimizer) {
  for (const FilePart& part : parts) parts_.emplace(part.name, part);
  held_ = held;
  for (const OptimizerPiece& piece : pieces) pieces_[piece.name].push_back(piece);
}

at::Tensor HeldState::numbers(const std::string& name, int kind, std::int64_t begin,
                              std::int64_t end) const {
  const FilePart& part = parts_.at(name);
  begin += part.offset;
  end += part.offset;
  if (const auto found = pieces_.find(part.module); found != pieces_.end())
    for (const OptimizerPiece& piece : found->second)
      if (piece.begin <= begin && end <= piece.end)
        return (kind == 0   ? piece.weight
                : kind == 1 ? piece.first_moment
                            : piece.second_moment)
            .slice(0, begin - piece.begin, end - piece.begin);
  PENSTOCK_ASSERT(kind == 0, name);
  return held_.at(part.module).view(-1).slice(0, begin, end);
}

at::TensorOptions HeldState::options(const std::string& name, int kind) const {
  const at::Tensor& weight = held_.at(parts_.at(name).module);
  return at::device(at::kCPU).dtype(kind == 0 ? weight.scalar_type()
                                              : moment_type(optimizer_, weight));
}

void HeldState::load(const TensorMap& model, const TensorMap& moments) const {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, part] : parts_) {
    part.place_in(held_.at(part.module)).copy_(take(model.at(name), part.slice));
    const auto found = pieces_.find(part.module);
    if (found == pieces_.end()) continue;
    for (const OptimizerPiece& piece : found->second) {
      const std::int64_t begin = std::max(piece.begin, part.offset),
                         end = std::min(piece.end, part.offset + part.numbers());
      if (begin >= end) continue;
      for (const std::string kind : {"m.", "v."}) {
        const at::Tensor whole = saved_tensor(moments, kind + name, part.slice.shape);
        const at::Tensor& moment = kind == "m." ? piece.first_moment : piece.second_moment;
        moment.slice(0, begin - piece.begin, end - piece.begin)
            .copy_(take(whole, part.slice)
                       .reshape({-1})
                       .slice(0, begin - part.offset, end - part.offset));
      }
    }
  }
}

CheckpointShare exchange_shares(const dist::ProcessGroup& world,
                                const std::vector<TensorShare>& shares, const HeldState& held) {
  const torch::NoGradGuard no_grad;
  const auto turns = share_turns(shares, kNumbersInATurn);
  const at::Tensor most = at::full({1}, static_cast<std::int64_t>(turns.size()), at::kLong);
  world.all_reduce(most, dist::Reduction::max);  // stages have different numbers of turns
  CheckpointShare out;
  for (std::size_t i = 0; i < static_cast<std::size_t>(most.item<std::int64_t>()); ++i) {
    Turn turn(world, held, out);
    if (i < turns.size())
      for (const ShareItem& item : turns[i]) turn.add(shares[item.share], item.kind);
    turn.exchange();
  }
  return out;
}

CheckpointShare own_shares(int rank, const std::vector<TensorShare>& shares,
                           const HeldState& held) {
  CheckpointShare out;
  for (const TensorShare& share : shares)
    for (int kind = 0; share.owner == rank && kind < (share.trained ? 3 : 1); ++kind)
      if (const at::Tensor whole = own_alias(rank, share, kind, held); whole.defined())
        keep(out, share, kind, whole);
  return out;
}

}  // namespace penstock
