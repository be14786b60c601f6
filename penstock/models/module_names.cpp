#include "penstock/models/module_names.h"

#include "penstock/base/error.h"
#include "penstock/base/parse_number.h"
#include "penstock/routers/parameter_names.h"

namespace penstock {
namespace {

constexpr std::string_view kLayerModule = "layer_", kLayersInFiles = "model.layers.";

/// The layer's number at the start of a text, as names write it: "3." of "3.norm.weight".
std::optional<std::int64_t> leading_layer(std::string_view text) {
  const auto out = parse_number<std::int64_t>(text.substr(0, text.find('.')));
  if (!out || *out < 0 || !text.starts_with(concat(*out, '.'))) return {};
  return out;
}

}  // namespace

std::string layer_module(std::int64_t layer) { return concat(kLayerModule, layer); }

std::string layer_stem(std::int64_t layer) { return concat(kLayersInFiles, layer, '.'); }

std::optional<std::int64_t> layer_in_files(std::string_view name) {
  if (!name.starts_with(kLayersInFiles)) return {};
  return leading_layer(name.substr(kLayersInFiles.size()));
}

std::int64_t only_layer_of(std::string_view parameter) {
  const std::size_t found = parameter.find(kLayerModule);
  if (found == std::string_view::npos || (found > 0 && parameter[found - 1] != '.')) return -1;
  const std::string_view behind = parameter.substr(found + kLayerModule.size());
  const auto layer = leading_layer(behind);
  if (!layer) return -1;
  return behind.find(concat('.', kRouterModule, '.')) == std::string_view::npos ? *layer : -1;
}

}  // namespace penstock
