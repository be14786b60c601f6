#include "penstock/train/tensor_exchange.h"

#include <torch/types.h>

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

TensorMap gather_tensors(const dist::ProcessGroup& group, const TensorMap& mine) {
  TensorMap out;
  for (int root = 0; root < group.size(); ++root)
    for (auto& [name, value] : broadcast_tensors(group, mine, root))
      PENSTOCK_ASSERT(out.emplace(name, value).second, name);
  return out;
}

}  // namespace penstock
