#include "penstock/train/ranks/shared_weights.h"

#include <c10/core/StorageImpl.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <memory>

namespace penstock {
namespace {

/// A weight begins at a multiple of a cache line and of the longest vector.
constexpr std::int64_t kAlignment = 64;

bool is_alone(const at::Tensor& weight) {
  return weight.device().is_cpu() && weight.is_contiguous() && weight.storage_offset() == 0 &&
         weight.storage().nbytes() == weight.nbytes();
}

std::int64_t aligned_bytes(const at::Tensor& weight) {
  const auto bytes = static_cast<std::int64_t>(weight.nbytes());
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// A storage's context: a tensor that keeps its memory alive.
void drop_owner(void* owner) { delete static_cast<at::Tensor*>(owner); }

/// Makes the memory of `owner`, from a byte on, that of a tensor's storage.
void set_memory(const at::Tensor& tensor, const at::Tensor& owner, std::int64_t begin) {
  auto kept = std::make_unique<at::Tensor>(owner);
  std::byte* const data = static_cast<std::byte*>(owner.data_ptr()) + begin;
  tensor.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(
      {data, kept.release(), &drop_owner, at::kCPU});
}

}  // namespace

at::Tensor shared_memory_for(const dist::ProcessGroup& group,
                             const std::vector<at::Tensor>& weights) {
  if (weights.empty() || !std::ranges::all_of(weights, is_alone)) return {};
  std::int64_t bytes = 0;
  for (const at::Tensor& weight : weights) bytes += aligned_bytes(weight);
  return group.shared_bytes(bytes);
}

void move_weights(const dist::ProcessGroup& group, const std::vector<at::Tensor>& weights,
                  const at::Tensor& memory) {
  const torch::NoGradGuard no_grad;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < weights.size(); begin += aligned_bytes(weights[i]), ++i) {
    if (static_cast<int>(i % static_cast<std::size_t>(group.size())) != group.rank()) continue;
    const auto bytes = static_cast<std::int64_t>(weights[i].nbytes());
    memory.slice(0, begin, begin + bytes)
        .copy_(at::from_blob(weights[i].data_ptr(), {bytes}, at::kByte));
  }
  group.barrier("shared weights");
  begin = 0;
  for (const at::Tensor& weight : weights) {
    set_memory(weight, memory, begin);
    begin += aligned_bytes(weight);
  }
}

bool is_shared(const at::Tensor& weight) {
  return weight.storage().data_ptr().get_deleter() == &drop_owner;
}

}  // namespace penstock
