// MoE layers for models that Python trains. python/penstock/layer.py wraps them in torch modules.
#include <torch/types.h>

#include "penstock/base/fields.h"
#include "penstock/layers/moe.h"
#include "penstock/ops/check.h"
#include "penstock/ops/ops.h"
#include "python/bindings.h"

namespace penstock::python {
namespace {

/// The options of a model's layers, read from config keys. Errors name unknown keys.
struct LayerSettings {
  MoeOptions options;
  std::string activation = "swiglu";

  template <class V>
  void visit(V& v) {
    v("d_model", options.d_model, {.help = "width of the model", .min = 1});
    v("d_ffn", options.d_ffn, {.help = "width of one expert", .min = 1});
    v("experts", options.experts, {.help = "number of experts", .min = 1});
    v("layers", options.layers, {.help = "number of MoE layers", .min = 1});
    v("granularity", options.granularity, {.help = "factor of router.k", .min = 1});
    v("init_std", options.init_std,
      {.help = "standard deviation of the initial weights", .min = 0});
    v("output_std", options.output_std, {.help = "init_std of the experts' last matrix", .min = 0});
    v("activation", activation, {.help = "activation of the experts: swiglu or relu"});
    v("bias", options.form.bias, {.help = "whether experts have biases"});
    v("dropout", options.form.dropout, {.help = "dropout in the experts", .min = 0, .max = 0.99});
    v("shared_width", options.shared_width,
      {.help = "width of the shared expert; 0: none", .min = 0});
    v("shared_gate", options.shared_gate, {.help = "whether the shared expert has a gate"});
    v("shared_output_std", options.shared_output_std,
      {.help = "init_std of the shared expert's last matrix", .min = 0});
    v("router", options.router);
  }
};

MoeOptions options_of(const ConfigNode& node) {
  auto settings = read_config<LayerSettings>(node, "MoeLayer");
  settings.options.form.activation = ops::parse_activation(settings.activation);
  PENSTOCK_CHECK(!settings.options.router.dense(), "MoeLayer: method '",
                 settings.options.router.method, "' has no experts; choose another method");
  const MoeOptions& options = settings.options;
  const bool whole = options.granularity == 1;
  check_k(options.router.k, static_cast<double>(options.experts) / options.granularity,
          "MoeLayer.k", whole ? "MoeLayer.experts" : "MoeLayer.experts / MoeLayer.granularity");
  return options;
}

std::pair<at::Tensor, RoutingResult> forward(MoeLayer& layer, const at::Tensor& x, bool training,
                                             std::int64_t step, std::int64_t total_steps,
                                             std::int64_t k, std::int64_t sequence_length,
                                             double logit_shift,
                                             const std::optional<at::Tensor>& token_ids,
                                             const std::optional<at::Generator>& generator,
                                             std::optional<std::int64_t> dropout_seed) {
  const WithoutGil released;
  ops::check_same_kind({x, layer.experts().parameters(/*recurse=*/false).front()}, "MoeLayer");
  PENSTOCK_CHECK(!token_ids || !token_ids->is_floating_point(),
                 "token_ids must be whole numbers, not ", token_ids->scalar_type());
  const RoutingContext context{
      .step = step,
      .total_steps = total_steps,
      .training = training,
      .k = k,
      .logit_shift = logit_shift,
      .token_ids = token_ids ? token_ids->reshape({-1}).to(at::kLong) : at::Tensor(),
      .sequence_length = sequence_length,
      .generator = generator};
  MoeOutput out = layer.forward(x, context, dropout_seed);
  return {out.y, std::move(out.routing)};
}

template <class Items>
std::vector<std::pair<std::string, at::Tensor>> listed(const Items& items) {
  std::vector<std::pair<std::string, at::Tensor>> out;
  for (const auto& item : items) out.emplace_back(item.key(), item.value());
  return out;
}

}  // namespace

void add_layers(py::module_& module) {
  py::class_<MoeLayer, std::shared_ptr<MoeLayer>>(module, "MoeLayer")
      .def("forward", &forward, py::arg("x"), py::kw_only(), py::arg("training"), py::arg("step"),
           py::arg("total_steps"), py::arg("k"), py::arg("sequence_length"), py::arg("logit_shift"),
           py::arg("token_ids"), py::arg("generator"), py::arg("dropout_seed"))
      .def("after_step", &MoeLayer::after_step, py::call_guard<WithoutGil>())
      .def("parameters", [](const MoeLayer& layer) { return listed(layer.named_parameters()); })
      .def("buffers", [](const MoeLayer& layer) { return listed(layer.named_buffers()); });
  module.def(
      "make_moe_layers",
      [](const py::dict& options) {
        const MoeOptions checked = options_of(to_config(options, ""));
        const WithoutGil released;
        return make_moe_layers(checked);
      },
      py::arg("options"));
  module.def(
      "complete_layer_options",
      [](const py::dict& options) {
        const ConfigNode node = to_config(options, "");
        const MoeOptions checked = options_of(node);
        ConfigNode complete = write_config(read_config<LayerSettings>(node, "MoeLayer"));
        const ResolvedRouter router = resolve(checked.router);
        complete.set("parts.scorer", router.scorer);
        complete.set("parts.selector", router.selector);
        ConfigNode::Array balancers;
        for (const auto& name : router.balancers) balancers.emplace_back(name);
        complete.set("parts.balancers", std::move(balancers));
        complete.set("parts.needs_token_ids", router.traits.needs_token_ids);
        return to_python(complete);
      },
      py::arg("options"));
}

}  // namespace penstock::python
