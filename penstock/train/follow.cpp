#include "penstock/train/follow.h"

#include <torch/types.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "penstock/train/checkpoints/checkpoint_writer.h"
#include "penstock/train/interrupt.h"
#include "penstock/train/ranks/agreement.h"
#include "penstock/train/ranks/orders.h"
#include "penstock/train/ranks/shared_files.h"

namespace penstock {
namespace {

class Follower {
 public:
  Follower(Trainer& trainer, const dist::ProcessGroup& group, FileSystem& files, double left)
      : trainer_(trainer),
        group_(group),
        files_(files),
        left_(left),
        writer_([this](const DueCheckpoint& due) {
          written_ =
              save_piece(files_, place_, due.step, due.contents.model, due.contents.optimizer);
        }) {}

  RunOutcome run() {
    while (true) {
      const Order order = next_order(group_);
      if (order == Order::finished) return RunOutcome::finished;
      if (order == Order::interrupted) return RunOutcome::interrupted;
      if (order == Order::failed) throw ReportedByRankZero("rank 0 failed");
      carry_out(order);
    }
  }

 private:
  void carry_out(Order order) {
    switch (order) {
      case Order::step:
        return step();
      case Order::gather:
        trainer_.model_tensors();
        trainer_.optimizer_tensors();
        return;
      case Order::gather_whole:
        return trainer_.gather_whole();
      case Order::meet:
        if (first_rank_without(group_, "", files_).empty()) agree_on_room(trainer_, group_, left_);
        return;
      case Order::room:
        return make_room();
      case Order::save:
        return save();
      case Order::saved:
        return say_what_is_saved();
      case Order::restore:
        return restore();
      default:
        return;  // goes on waiting
    }
  }

  void step() {
    const StepWatch watch = [this](const StepPlace&) {
      if (interrupt_.signal() != 0) throw StepStopped(interrupt_.signal());
      writer_.done();  // throws the failure of a write, which rank 0 then reports
    };
    try {
      trainer_.advance(watch);
    } catch (const StepStopped&) {
      // The step's record has told rank 0, which says what comes next.
    }
  }

  void save() {
    const nlohmann::json order = nlohmann::json::parse(next_text(group_));
    // Rank 0 has seen that the previous piece is written.
    writer_.wait();
    place_ = {.directory = order.at("directory").get<std::string>(),
              .rank = group_.rank(),
              .ranks = group_.size()};
    CheckpointShare share = trainer_.checkpoint_share();
    writer_.start(
        {.step = order.at("step").get<std::int64_t>(),
         .contents = {.model = std::move(share.model), .optimizer = std::move(share.optimizer)}},
        order.at("waits").get<bool>() ? Training::waits : Training::goes_on);
  }

  void make_room() {
    CheckpointShare share = trainer_.own_share();
    writer_.make_room({.model = std::move(share.model), .optimizer = std::move(share.optimizer)});
  }

  void say_what_is_saved() {
    std::exception_ptr thrown;
    try {
      writer_.wait([this] { all_done(group_, false); });
    } catch (const dist::LostRank&) {
      throw;
    } catch (...) {
      thrown = std::current_exception();
    }
    while (!all_done(group_, true)) continue;
    check_none_failed(group_, thrown);
    group_.gather(piece_text(written_));
  }

  void restore() {
    const std::string directory = next_text(group_);
    if (directory.empty()) return trainer_.restore(0, {}, {}, "");
    const CheckpointContents contents =
        on_all_ranks(group_, [&] { return open_checkpoint(files_, directory); });
    trainer_.restore_from_files(0, contents.model, contents.optimizer, directory);
  }

  Trainer& trainer_;
  const dist::ProcessGroup& group_;
  FileSystem& files_;
  double left_;
  const InterruptGuard interrupt_;
  PiecePlace place_;
  WrittenPiece written_;     // the last result of save_piece()
  CheckpointWriter writer_;  // last: its thread uses the other members
};

}  // namespace

PieceRoom agree_on_room(Trainer& trainer, const dist::ProcessGroup& group, double left) {
  const at::Tensor numbers =
      torch::tensor({static_cast<double>(trainer.largest_share_bytes()), -left}, at::kDouble);
  group.all_reduce(numbers, dist::Reduction::max);
  return {.piece = static_cast<std::int64_t>(numbers[0].item<double>()),
          .left = -numbers[1].item<double>()};
}

RunOutcome follow(Trainer& trainer, const dist::ProcessGroup& group, FileSystem& files,
                  double left) {
  return Follower(trainer, group, files, left).run();
}

}  // namespace penstock
