#include "penstock/doctor/doctor.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/types.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/convert/sample_windows.h"
#include "penstock/io/config_json.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/models/files/stored_model.h"

namespace penstock {
namespace {

constexpr std::int64_t kWindow = 256;

/// Windows [n, L] of token ids. L is a multiple of the segments of a router that blends weights by
/// segment.
at::Tensor sample(const ModelSource& model, const DoctorOptions& options) {
  const ModelConfig& config = model.config();
  const std::int64_t segment = config.traits().segment_length;
  const std::int64_t most = config.context > 0 ? std::min(config.context, kWindow) : kWindow;
  const std::int64_t length = std::max(segment, most / segment * segment);
  if (!options.text.empty()) {
    const at::Tensor windows = sample_windows(
        options.text, model, {.tokens = std::max(options.tokens, segment), .length = length});
    const std::int64_t whole = windows.size(1) / segment * segment;
    PENSTOCK_CHECK(whole > 0, options.text, ": has ", windows.size(1),
                   " tokens, and a segment of the routers has ", segment, "; give more text");
    return windows.narrow(1, 0, whole).contiguous();
  }
  return at::randint(0, config.vocab, {std::max<std::int64_t>(1, options.tokens / length), length},
                     at::detail::createCPUGenerator(1), at::TensorOptions().dtype(at::kLong));
}

/// Whether the model was upcycled with unscaled shards on request.
bool asked_for_no_scale(const std::string& model, Diagnosis& diagnosis) {
  const std::string path = model + "/upcycling.json";
  if (!std::filesystem::exists(path)) return false;
  try {
    const auto record = read_json(path);
    return record.is_object() && record.contains("scale") && record["scale"] == "none";
  } catch (const Error& error) {
    diagnosis.add("record", CheckState::warning, error.what(),
                  "shards are taken for scaled ones, as usual");
    return false;
  }
}

std::unique_ptr<ModelSource> opened(const std::string& path, Diagnosis& diagnosis) {
  try {
    return open_model_source(path);
  } catch (const Error& error) {
    diagnosis.add("files", CheckState::fault, error.what(),
                  "its files do not hold what its config says: mend the config if that is wrong, "
                  "else make the model again");
    return nullptr;
  }
}

}  // namespace

Diagnosis examine(const std::string& path, const DoctorOptions& options) {
  Diagnosis out;
  const auto source = opened(path, out);
  if (!source) return out;
  out.add("files", CheckState::ok, concat(source->names().size(), " tensors, as the config says"));
  if (!doctor::check_weights(*source, out)) return out;
  if (source->config().moe_layers() == 0) {
    if (!options.dense.empty())
      out.add("experts", CheckState::fault, "the model to look at is dense itself",
              "these two seem swapped: the MoE comes first, the dense model that it was made of "
              "second");
    else
      out.add("experts", CheckState::ok, "a dense model: nothing is routed");
    return out;
  }
  std::unique_ptr<ModelSource> parent;
  if (!options.dense.empty()) {
    parent = open_model_source(options.dense);
    PENSTOCK_CHECK(parent->config().moe_layers() == 0, options.dense,
                   ": has experts itself; give the dense parent");
  }
  if (parent && !doctor::check_parent(source->config(), parent->config(), out)) parent.reset();
  const doctor::ExpertRelation relation =
      doctor::check_experts(*source, parent.get(), asked_for_no_scale(path, out), out);
  const at::Tensor windows = sample(*source, options);
  doctor::DenseView view;
  if (parent) view = doctor::view_dense(*open_model(*parent), windows);
  const auto model = load_model(*source);
  doctor::check_routing(*model, windows, out);
  if (parent) doctor::check_logits(*model, view, relation, windows, out);
  doctor::check_objective(*model, windows, out);
  doctor::check_learning(*model, windows, out);
  return out;
}

}  // namespace penstock
