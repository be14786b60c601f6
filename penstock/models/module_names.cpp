#include "penstock/models/module_names.h"

#include <charconv>

#include "penstock/base/error.h"
#include "penstock/routers/parameter_names.h"

namespace penstock {
namespace {

constexpr std::string_view kLayerModule = "layer_";

}  // namespace

std::string layer_module(std::int64_t layer) { return concat(kLayerModule, layer); }

std::int64_t only_layer_of(std::string_view parameter) {
  const std::size_t found = parameter.find(kLayerModule);
  if (found == std::string_view::npos || (found > 0 && parameter[found - 1] != '.')) return -1;
  const std::string_view behind = parameter.substr(found + kLayerModule.size());
  std::int64_t layer = -1;
  const auto [end, error] = std::from_chars(behind.data(), behind.data() + behind.size(), layer);
  if (error != std::errc() || layer < 0) return -1;
  return behind.find(concat('.', kRouterModule, '.')) == std::string_view::npos ? layer : -1;
}

}  // namespace penstock
