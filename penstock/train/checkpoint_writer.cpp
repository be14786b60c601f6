#include "penstock/train/checkpoint_writer.h"

#include <torch/types.h>

#include <memory>
#include <utility>
#include <vector>

#include "penstock/base/error.h"

namespace penstock {
namespace {

bool alike(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type();
}

/// Where `tensor` is copied to.
at::Tensor& room_for(const std::string& name, const at::Tensor& tensor, TensorMap& copies) {
  at::Tensor& copy = copies[name];
  if (!alike(copy, tensor))
    copy = at::empty(tensor.sizes(), at::device(at::kCPU).dtype(tensor.scalar_type()));
  return copy;
}

/// What ranks have gathered belongs to the checkpoint alone.
bool may_change(const at::Tensor& tensor) {
  return tensor.use_count() > 1 || tensor.storage().use_count() > 1;
}

void copy_what_may_change(TensorMap& tensors, TensorMap& copies) {
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : tensors)
    if (may_change(tensor)) tensor = room_for(name, tensor, copies).copy_(tensor);
}

}  // namespace

void CheckpointWriter::make_room(const CheckpointContents& contents) {
  std::vector<at::Tensor> room;
  for (const auto& [name, tensor] : contents.model)
    room.push_back(room_for(name, tensor, model_copies_));
  for (const auto& [name, tensor] : contents.optimizer)
    room.push_back(room_for(name, tensor, optimizer_copies_));
  background_.add([room = std::move(room)] {
    for (const at::Tensor& tensor : room) tensor.zero_();
  });
}

void CheckpointWriter::write(DueCheckpoint due, Training training) {
  PENSTOCK_ASSERT(done(), "a checkpoint is still being written");
  if (training == Training::goes_on) {
    copy_what_may_change(due.contents.model, model_copies_);
    copy_what_may_change(due.contents.optimizer, optimizer_copies_);
  }
  background_.add([this, due = std::make_shared<const DueCheckpoint>(std::move(due))] {
    before_();
    store_.save(due->step, due->contents, due->validation_loss, due->superseded);
  });
  if (training == Training::waits) wait();
}

}  // namespace penstock
