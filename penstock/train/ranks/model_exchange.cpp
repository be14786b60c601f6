#include "penstock/train/ranks/model_exchange.h"

#include <torch/types.h>

#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/models/formats/rank_slices.h"
#include "penstock/models/formats/tensor_names.h"

namespace penstock {
namespace {

nlohmann::json ranges_json(const Slice& slice) {
  nlohmann::json out = nlohmann::json::array();
  for (const auto& axis : slice.ranges) {
    nlohmann::json ranges = nlohmann::json::array();
    for (const IndexRange& range : axis) ranges.push_back({range.first, range.last});
    out.push_back(std::move(ranges));
  }
  return out;
}

Slice slice_from(const nlohmann::json& ranges, const std::vector<std::int64_t>& shape) {
  Slice out{.shape = shape};
  for (const nlohmann::json& axis : ranges) {
    auto& of_axis = out.ranges.emplace_back();
    for (const nlohmann::json& range : axis)
      of_axis.push_back({range[0].get<std::int64_t>(), range[1].get<std::int64_t>()});
  }
  return out;
}

/// The tensors that this rank counts in the global norm (GradientSharing::counted): dense tensors
/// of which the first rank along `data` is the first holder, and experts of which the first rank
/// with the same experts is the first holder.
std::set<std::string> first_beside_data(const LanguageModel& model, const dist::Mesh& mesh,
                                        const std::set<std::string>& of_experts) {
  const dist::Coordinates at = dist::coordinates_of(mesh.layout, mesh.world.rank());
  std::set<std::string> out;
  const auto add = [&](const dist::Coordinates& first, bool experts) {
    for (const std::string& name :
         first_held(model.config(), mesh.layout, dist::rank_at(mesh.layout, first),
                    model.place().part.chunks()))
      if (of_experts.contains(name) == experts) out.insert(name);
  };
  add({0, at.tensor, at.pipeline}, /*experts=*/false);
  add(dist::first_with_experts(mesh.layout, at), /*experts=*/true);
  return out;
}

/// The tensors whose names begin with `prefix`.
TensorMap with_prefix(const TensorMap& tensors, const std::string& prefix) {
  TensorMap out;
  for (const auto& [name, value] : tensors)
    if (name.starts_with(prefix)) out[name] = value;
  return out;
}

}  // namespace

ModelExchange::ModelExchange(const LanguageModel& model, const dist::Mesh& mesh) : mesh_(mesh) {
  if (!divided()) return;
  const ModelConfig& config = model.config();
  const ModelPart& part = model.place().part;
  whole_ = model_slices(config, {});
  slices_ = model_slices(config, part);
  first_held_ = first_held(config, mesh.layout, mesh.world.rank(), part.chunks());
  of_experts_ = expert_parameters(config);
  in_shares_ = parameters_in_shares(backbone_tensors(config), mesh.layout);
  beside_data_ = first_beside_data(model, mesh, of_experts_);
  for (const auto& [name, tensor] : held_tensors(model))
    PENSTOCK_ASSERT(
        slices_.contains(name) && tensor.sizes() == at::IntArrayRef(slices_.at(name).part_shape()),
        name);
}

bool ModelExchange::divided() const {
  const dist::Layout& layout = mesh_.layout;
  return layout.tensor * layout.pipeline * layout.expert > 1;
}

Slice ModelExchange::slice_of(const std::string& name, const at::Tensor& held) const {
  return divided() ? slices_.at(name) : Slice::all(held.sizes().vec());
}

bool ModelExchange::first_of_copies(const std::string& name) const {
  const bool of_replicas = mesh_.layout.divides_experts() && of_experts_.contains(name);
  return (of_replicas ? mesh_.replicas : mesh_.data).rank() == 0;
}

GradientSharing ModelExchange::sharing() const {
  const int tensor = dist::coordinates_of(mesh_.layout, mesh_.world.rank()).tensor;
  GradientSharing out{.tree = true,
                      .data = mesh_.data,
                      .replicas = mesh_.replicas,
                      .expert_ranks = mesh_.layout.expert,
                      .stages = mesh_.pipeline,
                      .peers = {mesh_.tensor, mesh_.expert},
                      .world = mesh_.world,
                      .tensor = mesh_.tensor,
                      .counts = tensor == 0};
  const auto among = [](const std::set<std::string>& names) {
    return [names](const std::string& name) { return names.contains(name); };
  };
  if (mesh_.layout.divides_experts()) out.of_experts = among(of_experts_);
  if (!in_shares_.empty()) out.in_shares = among(in_shares_);
  if (mesh_.layout.ranks() > mesh_.layout.data) out.counted = among(beside_data_);
  return out;
}

TensorMap ModelExchange::gather(const TensorMap& parts, const std::string& prefix) const {
  if (!divided()) return with_prefix(parts, prefix);
  nlohmann::json mine = nlohmann::json::object();  // what this rank sends
  for (const std::string& name : first_held_)
    if (const auto found = parts.find(prefix + name); found != parts.end())
      mine[name] = {static_cast<int>(found->second.scalar_type()), ranges_json(slices_.at(name))};
  const auto lists = mesh_.world.gather(mine.dump());
  TensorMap out;
  for (int rank = 0; rank < mesh_.world.size(); ++rank) {
    if (mesh_.world.rank() != 0 && mesh_.world.rank() != rank) continue;
    const nlohmann::json list = nlohmann::json::parse(lists[static_cast<std::size_t>(rank)]);
    for (const auto& [name, entry] : list.items()) {
      if (mesh_.world.rank() != 0) {
        mesh_.world.send(parts.at(prefix + name).contiguous(), 0);
        continue;
      }
      const Slice slice = slice_from(entry[1], whole_.at(name).shape);
      const auto type = static_cast<at::ScalarType>(entry[0].get<int>());
      at::Tensor& whole = out[prefix + name];
      if (!whole.defined()) whole = at::empty(slice.shape, at::device(at::kCPU).dtype(type));
      if (rank == 0) {
        put(whole, slice, parts.at(prefix + name));
      } else {
        const at::Tensor part = at::empty(slice.part_shape(), whole.options());
        mesh_.world.receive(part, rank);
        put(whole, slice, part);
      }
    }
  }
  return out;
}

TensorMap ModelExchange::scatter(const TensorMap& whole, const std::string& prefix) const {
  if (mesh_.world.size() == 1) return with_prefix(whole, prefix);
  nlohmann::json kinds = nlohmann::json::object();  // dtype and shape by name, with its prefix
  for (const auto& [name, tensor] : with_prefix(whole, prefix))
    if (!divided() || whole_.contains(name.substr(prefix.size())))
      kinds[name] = {static_cast<int>(tensor.scalar_type()), tensor.sizes().vec()};
  kinds = nlohmann::json::parse(mesh_.world.broadcast_bytes(kinds.dump()));
  TensorMap out;
  for (const auto& [name, kind] : kinds.items()) {
    const auto options =
        at::device(at::kCPU).dtype(static_cast<at::ScalarType>(kind[0].get<int>()));
    const at::Tensor all = mesh_.world.rank() == 0
                               ? whole.at(name).contiguous()
                               : at::empty(kind[1].get<std::vector<std::int64_t>>(), options);
    mesh_.world.broadcast(all);
    if (!divided())
      out[name] = all;
    else if (const auto mine = slices_.find(name.substr(prefix.size())); mine != slices_.end())
      out[name] = take(all, mine->second).clone();
  }
  return out;
}

}  // namespace penstock
