#include "penstock/train/checkpoints/checkpoint_writer.h"

#include <torch/types.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "penstock/base/error.h"

namespace penstock {
namespace {

bool alike(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type();
}

/// The tensor that `tensor` is copied to.
at::Tensor& room_for(const std::string& name, const at::Tensor& tensor, TensorMap& copies) {
  at::Tensor& copy = copies[name];
  if (!alike(copy, tensor))
    copy = at::empty(tensor.sizes(), at::device(at::kCPU).dtype(tensor.scalar_type()));
  return copy;
}

/// Finds memory that only these tensors refer to, such as memory into which ranks have gathered.
class OwnMemory {
 public:
  explicit OwnMemory(const TensorMap& tensors) {
    for (const auto& [name, tensor] : tensors) {
      Holders& holders = by_memory_[memory_of(tensor)];
      ++holders.tensors;
      holders.shared = holders.shared || tensor.use_count() > 1;
      if (!tensor.is_view()) continue;
      const at::TensorBase& base =
          tensor._base();  // another tensor of the memory, which the view holds
      ++holders.views;
      holders.bases[base.unsafeGetTensorImpl()] = base.use_count();
    }
  }
  bool holds(const at::Tensor& tensor) const {
    const Holders& holders = by_memory_.at(memory_of(tensor));
    std::size_t references = 0;  // to all bases
    for (const auto& [base, count] : holders.bases) references += count;
    return !holders.shared && references == holders.views &&
           tensor.storage().use_count() == holders.tensors + holders.bases.size();
  }

 private:
  struct Holders {
    std::size_t tensors = 0, views = 0;
    bool shared = false;  // others refer to one of the tensors
    std::map<const void*, std::size_t> bases;
  };
  static const void* memory_of(const at::Tensor& tensor) {
    return tensor.storage().unsafeGetStorageImpl();
  }
  std::map<const void*, Holders> by_memory_;
};

void copy_what_may_change(TensorMap& tensors, TensorMap& copies) {
  const torch::NoGradGuard no_grad;
  const OwnMemory own(tensors);
  std::vector<std::pair<at::Tensor*, at::Tensor>> copied;  // assigned after all checks
  for (auto& [name, tensor] : tensors)
    if (!own.holds(tensor))
      copied.emplace_back(&tensor, room_for(name, tensor, copies).copy_(tensor));
  for (auto& [tensor, copy] : copied) *tensor = copy;
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
  start(std::move(due), training);
  if (training == Training::waits) wait();
}

void CheckpointWriter::start(DueCheckpoint due, Training training) {
  PENSTOCK_ASSERT(done(), "a checkpoint is still being written");
  if (training == Training::goes_on) {
    copy_what_may_change(due.contents.model, model_copies_);
    copy_what_may_change(due.contents.optimizer, optimizer_copies_);
  }
  if (due.shared) due.shared->given_up = [this] { return given_up_.load(); };
  background_.add(
      [this, due = std::make_shared<const DueCheckpoint>(std::move(due))] { save_(*due); });
}

}  // namespace penstock
