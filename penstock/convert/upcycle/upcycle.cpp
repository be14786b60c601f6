#include "penstock/convert/upcycle/upcycle.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <optional>

#include "penstock/base/error.h"
#include "penstock/convert/model_writer.h"
#include "penstock/convert/upcycle/head_mixture.h"
#include "penstock/convert/upcycle/router_start.h"
#include "penstock/convert/upcycle/started_routers.h"
#include "penstock/convert/upcycle/tensor_origins.h"
#include "penstock/convert/upcycle/upcycled_config.h"
#include "penstock/convert/upcycle/upcycled_size.h"
#include "penstock/convert/upcycle/upcycling_json.h"
#include "penstock/models/counts/model_tensors.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/models/formats/lazy_tensors.h"
#include "penstock/ops/initial_draws.h"
#include "penstock/routers/parameter_names.h"

namespace penstock {
namespace {

constexpr double kSharedStd = 0.02;

/// Draws from N(0, std²) that depend only on the seed and the tensor's name, so the order of
/// writing does not matter.
at::Tensor normal(std::uint64_t seed, const std::string& name, at::IntArrayRef shape, double std) {
  const at::Tensor out = at::empty(shape, at::kFloat);
  InitialDraws(seed).normal(name, out, std);
  return out;
}

/// Makes each tensor of the result.
class Upcycler {
 public:
  /// @param report  already has the config
  Upcycler(const ModelSource& parent, const UpcycleOptions& options, TensorOrigins& origins,
           UpcycleReport& report, const KeyCache& keys, const ConversionProgress& progress)
      : parent_(parent), options_(options), origins_(origins), report_(report) {
    report_.lr_scale = options.lr_scale;
    routers_ = router_starts(parent, report_.config, options, report_, keys, progress);
    report_.config.router.lr_scale = report_.lr_scale;
    report_.shard_scale = options.scale == ShardScale::none ? 1 : shard_scale(report_.config);
    balancers_.emplace(report_.config.traits().needs_matrix
                           ? started_routers(routers_, report_.config).balancers
                           : balancers_of(report_.config));
    std::size_t moe_layer = 0;
    for (std::int64_t layer = 0; layer < report_.config.layers; ++layer)
      if (report_.config.is_moe(layer)) router_of_[layer] = moe_layer++;
  }

  std::vector<LazyTensor> tensors() {
    std::vector<LazyTensor> out;
    for (const auto& [name, shape] : tensor_shapes(report_.config)) {
      LazyTensor& tensor = out.emplace_back(source_of(name));
      tensor.name = name;
      tensor.shape = shape;
    }
    return out;
  }

 private:
  /// The type of one tensor of the result, and the function that makes it.
  LazyTensor source_of(const std::string& name) {
    if (name.starts_with("penstock.balancer_")) return balancers_->tensor(name);
    if (const auto router = scorer_tensor(name)) return router_tensor(*router);
    const bool expert = expert_of(name) >= 0;
    const bool shared = name.find(".mlp.shared_expert.") != std::string::npos;
    if (shared && !options_.shared_copy)
      return {.type = origins_.type_of(name), .make = [this, name] { return fresh(name); }};
    return {.type = origins_.type_of(name), .make = [this, name, expert] {
              const at::Tensor tensor = finite_tensor(parent_, origins_.parent_of(name));
              return expert ? made_expert(name, tensor) : tensor;
            }};
  }

  LazyTensor router_tensor(const ScorerTensor& parameter) const {
    const std::size_t index = router_of_.at(parameter.layer);
    const RouterTensors& tensors = routers_.at(index);
    if (const auto found = tensors.find(parameter.parameter); found != tensors.end())
      return {.type = at::kFloat, .make = [tensor = found->second] { return tensor; }};
    PENSTOCK_ASSERT(parameter.parameter == kHeadQueries);
    return {.type = at::kFloat, .make = [this, index, layer = parameter.layer] {
              return query_maps(parent_, options_, report_.groups.at(index), layer);
            }};
  }

  at::Tensor made_expert(const std::string& name, const at::Tensor& parent) const {
    const at::Tensor tensor = expert_tensor(name, parent, report_.config, options_.scale);
    if (options_.noise == 0) return tensor;
    const at::Tensor wide = tensor.to(at::kFloat);
    return wide + normal(options_.seed, name, wide.sizes(), options_.noise);
  }

  /// A tensor of a shared expert whose width is not the feed-forward's. The expert adds 0 at first.
  at::Tensor fresh(const std::string& name) const {
    const std::int64_t d = report_.config.d_model, f = report_.config.moe.shared_width;
    if (name.ends_with(".down_proj.weight")) return at::zeros({d, f});
    return normal(options_.seed, name, {f, d}, kSharedStd);
  }

  const ModelSource& parent_;
  const UpcycleOptions& options_;
  TensorOrigins& origins_;
  UpcycleReport& report_;
  std::vector<RouterTensors> routers_;             // one for each MoE layer
  std::map<std::int64_t, std::size_t> router_of_;  // the MoE layer of each layer
  std::optional<FreshBalancers> balancers_;
};

}  // namespace

UpcycleReport upcycle(const ModelSource& parent, const UpcycleOptions& given, FileSystem& fs,
                      const std::string& out, const KeyCache& keys,
                      const ConversionProgress& progress) {
  const torch::NoGradGuard no_grad;
  const UpcycleOptions options = completed(given);
  PENSTOCK_CHECK(!fs.exists(out), out, ": exists already; name another place, or remove it");
  check_can_upcycle(parent.config(), parent.origin());
  UpcycleReport report{.config = upcycled_config(parent.config(), options)};
  TensorOrigins origins(parent, options);
  if (!options.force)
    check_upcycled_size(upcycled_size(report.config, origins), room_for_upcycling(out),
                        report.config, out);
  Upcycler upcycler(parent, options, origins, report, keys, progress);
  const auto note = [&](const WrittenModel& written) {
    report.bytes = written.bytes;
    report.without_tokenizer = written.without_tokenizer;
    return upcycling_json(parent, options, report);
  };
  write_model_of(parent, report.config, upcycler.tensors(), {"upcycling.json", note}, fs, out,
                 progress);
  return report;
}

}  // namespace penstock
