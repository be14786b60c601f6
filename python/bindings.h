// Declares the functions that add the parts of the module `penstock._core`. Each source file
// defines one function.
#pragma once

#include "python/values.h"
#include "python/without_gil.h"

namespace penstock::python {

void add_errors(py::module_& module);
void add_routing(py::module_& module);
void add_layers(py::module_& module);
void add_parts(py::module_& module);
void add_models(py::module_& module);
void add_training(py::module_& module);
void add_conversion(py::module_& module);

}  // namespace penstock::python
