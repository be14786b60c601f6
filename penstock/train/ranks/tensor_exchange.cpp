#include "penstock/train/ranks/tensor_exchange.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <nlohmann/json.hpp>

#include "penstock/base/error.h"

namespace penstock {

TensorMap broadcast_tensors(const dist::ProcessGroup& group, const TensorMap& mine, int root) {
  if (group.size() == 1) return mine;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [name, value] : mine)
    list.push_back({name, static_cast<int>(value.scalar_type()), value.sizes().vec()});
  list = nlohmann::ordered_json::parse(group.broadcast_bytes(list.dump(), root));
  TensorMap out;
  for (const auto& entry : list) {
    const auto name = entry[0].get<std::string>();
    const auto type = static_cast<at::ScalarType>(entry[1].get<int>());
    at::Tensor& value = out[name];
    value = group.rank() == root ? mine.at(name).contiguous()
                                 : at::empty(entry[2].get<std::vector<std::int64_t>>(),
                                             at::device(at::kCPU).dtype(type));
    group.broadcast(value, root);
  }
  return out;
}

void sum_tensors(const dist::ProcessGroup& group, const std::vector<at::Tensor>& tensors) {
  if (group.size() == 1 || tensors.empty()) return;
  const torch::NoGradGuard no_grad;
  const std::int64_t ranks = group.size();
  std::int64_t elements = 0;
  for (const at::Tensor& tensor : tensors) elements += tensor.numel();
  const std::int64_t own = (elements + ranks - 1) / ranks;  // all-gather needs equal shares
  const at::Tensor packed = torch::zeros({own * ranks}, tensors.front().options());
  const auto each = [&](const at::Tensor& flat, const auto& action) {
    std::int64_t at = 0;
    for (const at::Tensor& tensor : tensors) {
      action(tensor.view(-1), flat.narrow(0, at, tensor.numel()));
      at += tensor.numel();
    }
  };
  each(packed, [](const at::Tensor& tensor, const at::Tensor& place) { place.copy_(tensor); });
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks), own);
  const at::Tensor sums = group.all_gather(group.reduce_scatter(packed, counts)).view(-1);
  each(sums, [](const at::Tensor& tensor, const at::Tensor& place) { tensor.copy_(place); });
}

TensorMap gather_tensors(const dist::ProcessGroup& group, const TensorMap& mine) {
  TensorMap out;
  for (int root = 0; root < group.size(); ++root)
    for (auto& [name, value] : broadcast_tensors(group, mine, root))
      PENSTOCK_ASSERT(out.emplace(name, value).second, name);
  return out;
}

}  // namespace penstock
