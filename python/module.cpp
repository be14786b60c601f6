// `penstock._core`: the bindings through which the Python package `penstock` calls the library
// (python/penstock/).
#include "penstock/cli/routers.h"
#include "penstock/ops/dispatch.h"
#include "python/bindings.h"

PYBIND11_MODULE(_core, module) {
  // torch is imported first, because it defines the tensors that the bindings take and return.
  py::module_::import("torch");
  namespace python = penstock::python;
  penstock::ops::anchor();
  module.attr("__version__") = PENSTOCK_VERSION;
  python::end_work_with_python();
  python::add_errors(module);
  python::add_routing(module);
  python::add_layers(module);
  python::add_parts(module);
  python::add_models(module);
  python::add_training(module);
  python::add_conversion(module);
  module.def("routers", [] { return python::to_python(penstock::routers_json()); });
  module.def(
      "set_threads",
      [](const py::object& threads) {
        const auto count = python::whole_number_of(threads, "threads", 0, penstock::kMostThreads);
        return penstock::ops::set_threads(static_cast<int>(count));
      },
      py::arg("threads") = 0,
      "Sets the number of threads of torch and of the library, and returns it. 0: the number of "
      "physical cores.");
}
