#include "penstock/train/run_saver.h"

#include <fmt/format.h>

#include "penstock/base/number_text.h"
#include "penstock/base/stopwatch.h"
#include "penstock/train/memory_check.h"

namespace penstock {
namespace {

/// A save of this many bytes may take seconds, so the progress line announces it.
constexpr std::int64_t kSaidBytes = 128 << 20;

std::int64_t tensor_bytes(const CheckpointContents& contents) {
  std::int64_t out = 0;
  for (const TensorMap* tensors : {&contents.model, &contents.optimizer})
    for (const auto& [name, tensor] : *tensors) out += static_cast<std::int64_t>(tensor.nbytes());
  return out;
}

}  // namespace

void RunSaver::choose_writers(FileSystem& files) {
  writers_ = task_.writers(store_.root(), files);
  const bool all = writers_.ranks > 1;
  copy_bytes_ = all ? writers_.copy_bytes : plan_.copy_bytes;
  no_copy_ = why_training_waits(copy_bytes_, all ? writers_.memory_left : plan_.memory_left);
}

std::vector<std::string> RunSaver::notes() const {
  std::vector<std::string> out;
  for (const std::string& note : {writers_.note, no_copy_})
    if (!note.empty()) out.push_back(note);
  return out;
}

/// Whether a checkpoint may come before the end.
bool RunSaver::saves_on_the_way() const {
  const auto comes = [&](std::int64_t every) {
    return every > 0 && (task_.step() / every + 1) * every < plan_.steps;
  };
  return comes(plan_.checkpoint_every) ||
         (plan_.checkpoints.keep_best && comes(plan_.measure_every));
}

Training RunSaver::meanwhile() const {
  return copy_bytes_ > 0 && no_copy_.empty() ? Training::goes_on : Training::waits;
}

void RunSaver::make_room() {
  if (saves_on_the_way() && meanwhile() == Training::goes_on) writer_.make_room(task_.to_copy());
}

/// Waits for the previous checkpoint. If other ranks write pieces of it, asks them first: a wait
/// for the piece of a rank that failed would not end.
void RunSaver::finish_writing() {
  if (reported_ && !writer_.done()) task_.await_pieces(*reported_);
  writer_.wait([this] { task_.keep_waiting(); });
  reported_ = nullptr;
}

DueCheckpoint RunSaver::due_checkpoint(std::optional<double> loss, Training training,
                                       Superseded superseded) {
  DueCheckpoint due{.step = task_.step(), .validation_loss = loss, .superseded = superseded};
  if (writers_.ranks > 1) {
    due.shared = {.directory = store_.begin(due.step), .ranks = writers_.ranks};
    reported_ = due.shared->reported;
    due.contents = task_.piece({due.shared->directory->temporary(), due.step, training});
  } else {
    due.contents = task_.contents();
  }
  return due;
}

void RunSaver::save(std::optional<double> loss, const nlohmann::json& entries, Training training,
                    Superseded superseded) {
  const Stopwatch watch;
  finish_writing();
  if (task_.step() > 0 && (saved_step_ != task_.step() || loss)) {
    DueCheckpoint due = due_checkpoint(loss, training, superseded);
    due.contents.trainer.update(entries);
    const std::int64_t bytes = tensor_bytes(due.contents);
    writer_.start(std::move(due), training);
    if (training == Training::waits) {
      if (bytes >= kSaidBytes)
        progress_.show(fmt::format("saving {} of the state after step {}",
                                   size_text(static_cast<double>(bytes)), task_.step()));
      finish_writing();
    }
    saved_step_ = task_.step();
    wrote_ = true;
  }
  seconds_ += watch.seconds();
}

}  // namespace penstock
