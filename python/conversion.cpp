// Conversions from Python: upcycling of a dense model to an MoE, and export of a model for other
// programs.
#include <nlohmann/json.hpp>

#include "penstock/base/file_system.h"
#include "penstock/cli/arguments/model_argument.h"
#include "penstock/cli/arguments/output_path.h"
#include "penstock/cli/processes/one_process.h"
#include "penstock/convert/export/export_model.h"
#include "penstock/convert/upcycle/upcycle.h"
#include "penstock/convert/upcycle/upcycled_config.h"
#include "penstock/models/files/open_model.h"
#include "python/bindings.h"

namespace penstock::python {
namespace {

/// @param given  members of UpcycleOptions
/// @param router  keys of model.router that override the method's
std::string upcycle_model(const std::string& dense, const std::string& path, const py::dict& given,
                          const py::dict& router, const py::object& seed, bool force) {
  check_one_process("upcycle");
  const std::string out = output_path(path, "out");
  check_can_make(out);
  ConfigNode node = to_config(given, "");
  if (node.empty()) node = ConfigNode(ConfigNode::Table{});
  if (!node.find("start")) node.set("start", "parent");
  auto options = read_config<UpcycleOptions>(node, "options");
  options.seed = seed_of(seed, "seed");
  options.force = force;
  options.router_options = to_config(router, "router");
  const WithoutGil released;
  options = completed(options);
  const auto parent = open_model_source(model_argument(dense).path);
  upcycle(*parent, options, real_file_system(), out, {},
          [](std::string_view, double) { check_signals(); });
  return out;
}

/// @param given  keys of ExportOptions
py::object export_to(const std::string& model, const std::string& path, const std::string& sample,
                     const py::dict& given) {
  const std::string out = output_path(path, "out");
  check_is_new(out);
  check_can_make(out);
  auto options = read_config<ExportOptions>(to_config(given, ""), "options");
  options.out = out;
  options.sample = sample;
  const Certificate certificate = [&] {
    const WithoutGil released;
    options.model = model_argument(model).path;
    return export_model(options, [](std::string_view, double) { check_signals(); });
  }();
  return to_python(to_json(certificate));
}

}  // namespace

void add_conversion(py::module_& module) {
  module.def("upcycle", &upcycle_model, py::arg("dense"), py::arg("out"), py::arg("options"),
             py::arg("router"), py::arg("seed"), py::arg("force"));
  module.def("export", &export_to, py::arg("model"), py::arg("out"), py::arg("sample"),
             py::arg("options"));
}

}  // namespace penstock::python
