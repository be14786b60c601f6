// `penstock._core`: the library as the Python package `penstock` calls it (python/penstock/).
#include "penstock/cli/routers.h"
#include "penstock/ops/dispatch.h"
#include "python/bindings.h"

PYBIND11_MODULE(_core, module) {
  // torch defines the tensors that go in and out, so it is imported first.
  py::module_::import("torch");
  namespace python = penstock::python;
  penstock::ops::anchor();
  module.attr("__version__") = PENSTOCK_VERSION;
  python::add_errors(module);
  python::add_routing(module);
  python::add_layers(module);
  python::add_parts(module);
  python::add_models(module);
  python::add_training(module);
  python::add_conversion(module);
  module.def("routers", [] { return python::to_python(penstock::routers_json()); });
  module.def(
      "set_threads", &penstock::ops::set_threads, py::arg("threads") = 0,
      "Sets the threads of torch and of the library; 0: the physical cores. Returns their number.");
}
