#include "penstock/convert/handoff.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/base/json_text.h"
#include "penstock/convert/export/portable_source.h"
#include "penstock/convert/model_writer.h"
#include "penstock/convert/sample_windows.h"
#include "penstock/layers/all_outputs.h"
#include "penstock/models/config_shaped_source.h"
#include "penstock/models/counts/model_tensors.h"
#include "penstock/models/evaluation_mode.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/models/module_names.h"

namespace penstock {
namespace {

constexpr std::int64_t kRows = 2048;                       // most rows that a layer's fit reads
constexpr std::int64_t kProducts = std::int64_t{1} << 24;  // most numbers of a layer's products
constexpr std::int64_t kRowsAtOnce = 256;
constexpr double kBalance = 0.01;  // for further training

GateForm form_of(HandoffGates gates) {
  return gates == HandoffGates::kept ? GateForm::softmax_over_kept : GateForm::softmax_over_all;
}

ModelConfig handed_config(const ModelConfig& parent, double k, HandoffGates gates) {
  ModelConfig out = parent;
  out.router =
      plain_router({.k = k, .softmax_over_kept = gates == HandoffGates::kept, .balance = kBalance});
  return out.resolved();
}

double whole_k(const ModelConfig& parent, std::optional<std::int64_t> asked) {
  const auto k = asked ? static_cast<double>(*asked) : std::max(1.0, std::round(parent.router.k));
  PENSTOCK_CHECK(k <= static_cast<double>(parent.moe.experts), "options.k ", k,
                 ": give a number of experts per token, at most ", parent.moe.experts);
  return k;
}

/// Some of the inputs of each layer, with the router's logits for them.
struct LayerRows {
  std::vector<at::Tensor> hidden, logits;
};

/// The mean loss over windows [n, L] and the mean number of experts per token. If `rows` is not
/// null, it gets some rows of each layer.
struct Pass {
  double loss = 0, active = 0;
};
Pass pass_over(LanguageModel& model, const at::Tensor& windows, LayerRows* rows) {
  const EvaluationMode measuring(model);
  const std::int64_t layers = model.config().moe_layers(), experts = model.config().total_experts();
  const std::int64_t most =
      std::min(kRows, std::max<std::int64_t>(64, kProducts / (experts * experts)));
  const std::int64_t every = (windows.numel() + most - 1) / most;
  Pass out;
  if (rows) rows->hidden.resize(static_cast<std::size_t>(layers));
  if (rows) rows->logits.resize(static_cast<std::size_t>(layers));
  for (std::int64_t w = 0; w < windows.size(0); ++w) {
    const at::Tensor window = windows[w];
    const ModelOutput output = model.forward(
        {.tokens = window.unsqueeze(0)}, {}, [&](std::int64_t layer, const RoutingResult& result) {
          out.active += static_cast<double>(result.plan.assignments());
          if (!rows) return;
          const auto take = [&](at::Tensor& to, const at::Tensor& from) {
            const at::Tensor some = from.slice(0, w % every, c10::nullopt, every).clone();
            to = to.defined() ? at::cat({to, some}) : some;
          };
          take(rows->hidden[static_cast<std::size_t>(layer)], result.hidden);
          take(rows->logits[static_cast<std::size_t>(layer)], result.scores.logits);
        });
    const std::int64_t scored = window.size(0) - 1;
    out.loss += model.losses(output.hidden.slice(0, 0, scored), window.slice(0, 1))
                    .to(at::kDouble)
                    .sum()
                    .item<double>() /
                static_cast<double>(scored);
  }
  out.loss /= static_cast<double>(windows.size(0));
  out.active /= static_cast<double>(windows.numel() * layers);
  return out;
}

at::Tensor products_of(MoeLayer& layer, const at::Tensor& hidden, std::int64_t experts) {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> out;
  for (const at::Tensor& some : hidden.split(kRowsAtOnce))
    out.push_back(output_products(all_outputs(layer.experts(), experts, some)));
  return at::cat(out);
}

/// Fits both forms of gates and takes the nearer one. If a form is asked for, fits only that form.
void fit_layers(LanguageModel& parent, const LayerRows& rows, std::int64_t k,
                const std::optional<HandoffGates>& asked, HandoffReport& report) {
  std::map<HandoffGates, std::vector<GateFit>> fits;
  for (std::size_t l = 0; l < rows.hidden.size(); ++l) {
    const at::Tensor products =
        products_of(*parent.moe_layers()[l], rows.hidden[l], parent.config().total_experts());
    for (const HandoffGates gates : {HandoffGates::kept, HandoffGates::all})
      if (!asked || *asked == gates)
        fits[gates].push_back(fit_gates(rows.logits[l], products, k, form_of(gates)));
  }
  report.fitted_tokens = rows.hidden.front().size(0);
  report.gates =
      asked.value_or(mean_error(fits[HandoffGates::kept]) <= mean_error(fits[HandoffGates::all])
                         ? HandoffGates::kept
                         : HandoffGates::all);
  report.layers = fits[report.gates];
  if (!asked)
    report.other_error = mean_error(
        fits[report.gates == HandoffGates::kept ? HandoffGates::all : HandoffGates::kept]);
}

/// The result's tensors. Each is made from the parent's tensors when it is read.
class HandedSource : public ConfigShapedSource {
 public:
  HandedSource(const ModelSource& parent, const HandoffReport& report)
      : ConfigShapedSource(report.config, parent.origin()),
        parent_(parent),
        layers_(report.layers),
        gates_(folded_gates(parent)),
        balancers_(balancers_of(report.config)) {
    for (std::int64_t layer = 0; layer < config().layers; ++layer)
      if (config().is_moe(layer)) moe_layer_.emplace(layer, moe_layer_.size());
  }
  at::Tensor tensor(const std::string& name) const override {
    if (name.starts_with("penstock.balancer_")) return balancers_.tensor(name).make();
    if (const auto gate = gates_.find(name); gate != gates_.end())
      return gate->second * fit_of(name).scale;
    const at::Tensor whole = finite_tensor(parent_, name);
    const bool last_matrix =
        name.find(".mlp.experts.") != std::string::npos && name.ends_with("down_proj.weight");
    return last_matrix ? (whole.to(at::kFloat) * fit_of(name).output).to(whole.scalar_type())
                       : whole;
  }
  std::shared_ptr<const Tokenizer> tokenizer() const override { return parent_.tokenizer(); }

 private:
  /// The fit of the layer in the tensor's name.
  const GateFit& fit_of(const std::string& name) const {
    return layers_.at(moe_layer_.at(layer_in_files(name).value()));
  }

  const ModelSource& parent_;
  std::vector<GateFit> layers_;
  std::map<std::string, at::Tensor> gates_;
  FreshBalancers balancers_;
  std::map<std::int64_t, std::size_t> moe_layer_;
};

}  // namespace

double mean_error(const std::vector<GateFit>& layers) {
  double sum = 0;
  for (const GateFit& one : layers) sum += one.error;
  return layers.empty() ? 0 : sum / static_cast<double>(layers.size());
}

void check_can_hand_off(const ModelConfig& config) {
  PENSTOCK_CHECK(config.moe_layers() > 0,
                 "the model is dense: there is no routing to hand off; `penstock export` writes it "
                 "as it is");
  const ResolvedRouter router = resolve(config.router);
  PENSTOCK_CHECK(router.traits.gates == GateForm::relu, "the model's gates are of selector '",
                 router.selector,
                 "', not ReLU's: there is nothing to hand off; `penstock export` writes it as it "
                 "is, or says why not");
  PENSTOCK_CHECK(!router.traits.biases_choice,
                 "a balancer's bias is part of the model's gates, and the result's have none");
  PENSTOCK_CHECK(config.ffn_form().inputs() == 2 && !config.transformer_xl(),
                 word(config.architecture), " is not handed off: no other program computes it");
  PENSTOCK_CHECK(router.traits.foldable, "scorer '", router.scorer,
                 "' as it is set is not one matrix, and the result's routers are");
}

namespace {

/// Measures the parent: the fits, its loss and its active experts.
void fit_and_measure(const ModelSource& source, const at::Tensor& fitted,
                     const at::Tensor& measured, double k, const std::optional<HandoffGates>& gates,
                     HandoffReport& report) {
  const auto parent = load_model(source);
  LayerRows rows;
  pass_over(*parent, fitted, &rows);
  fit_layers(*parent, rows, static_cast<std::int64_t>(k) * source.config().moe.granularity, gates,
             report);
  const Pass before = pass_over(*parent, measured, nullptr);
  report.parent_loss = before.loss;
  report.parent_active = before.active;
}

}  // namespace

HandoffReport hand_off(const HandoffOptions& options, FileSystem& fs, const std::string& out,
                       const ConversionProgress& progress) {
  const torch::NoGradGuard no_grad;
  PENSTOCK_CHECK(!fs.exists(out), out, ": exists already; name another place, or remove it");
  const auto source = open_model_source(options.model);
  check_can_hand_off(source->config());
  folded_gates(*source);  // throws Error for biases before the long computation
  const double k = whole_k(source->config(), options.k);
  const at::Tensor windows =
      sample_windows(options.calibration, *source, {.tokens = options.calibration_tokens});
  PENSTOCK_CHECK(windows.size(0) >= 2 && windows.size(1) >= 2, options.calibration,
                 ": options.calibration_tokens ", options.calibration_tokens,
                 ", or what the text has, is too little to fit on one part of it and to measure on "
                 "another; give more");
  const at::Tensor fitted = windows.slice(0, 0, c10::nullopt, 2).contiguous(),
                   measured = windows.slice(0, 1, c10::nullopt, 2).contiguous();
  HandoffReport report{.measured_tokens = measured.size(0) * (measured.size(1) - 1)};
  tell(progress, "fitting the gates", 0);
  fit_and_measure(*source, fitted, measured, k, options.gates, report);
  report.config = handed_config(source->config(), k, report.gates);
  const HandedSource result(*source, report);
  tell(progress, "measuring", 0.5);  // the parent is measured; the result follows
  report.loss = pass_over(*load_model(result), measured, nullptr).loss;
  const auto note = [&](const WrittenModel& written) {
    report.without_tokenizer = written.without_tokenizer;
    nlohmann::ordered_json json = to_json(report);
    json["parent"] = source->origin();
    return json_text(json, 1) + "\n";
  };
  std::vector<LazyTensor> tensors;
  for (const std::string& name : result.names())
    tensors.push_back({.name = name,
                       .type = result.tensor(name).scalar_type(),
                       .shape = result.shape(name),
                       .make = [&result, name] { return result.tensor(name); }});
  write_model_of(*source, report.config, std::move(tensors), {"handoff.json", note}, fs, out,
                 progress);
  return report;
}

nlohmann::ordered_json to_json(const HandoffReport& report) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  const std::vector<std::int64_t> numbers = report.config.moe_layer_indices();
  for (std::size_t l = 0; l < report.layers.size(); ++l) {
    const GateFit& one = report.layers[l];
    layers.push_back({{"model_layer", numbers[l]},
                      {"scale", one.scale},
                      {"output", one.output},
                      {"error", one.error}});
  }
  return {
      {"k", report.config.active_experts()},
      {"gates", word(report.gates)},
      {"error", mean_error(report.layers)},
      {"error_of_other_gates", report.other_error > 0 ? nlohmann::ordered_json(report.other_error)
                                                      : nlohmann::ordered_json()},
      {"layers", layers},
      {"fitted_tokens", report.fitted_tokens},
      {"measured_tokens", report.measured_tokens},
      {"parent_loss", report.parent_loss},
      {"loss", report.loss},
      {"parent_active_experts", report.parent_active}};
}

}  // namespace penstock
