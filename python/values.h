// Conversion of values between Python and the library: configuration trees, JSON, tensors. Tensors
// use libtorch's own casters (torch/csrc/utils/pybind.h): both sides hold the same tensor, and
// nothing is copied.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "penstock/base/config_node.h"

namespace penstock::python {

/// Converts a dict, list, str, path, bool or number to a configuration tree, and None to an empty
/// node. Keys may be dotted: {"train.steps": 100}. `origin` names the value in errors. Throws
/// TypeError for other types.
ConfigNode to_config(py::handle value, const std::string& origin);
/// Converts the tree to Python dicts, lists, strings and numbers.
py::object to_python(const ConfigNode& node);
py::object to_python(const nlohmann::json& value);
py::object to_python(const nlohmann::ordered_json& value);

/// A Python object that C++ keeps alive. Any thread may release it, also at the program's end.
using Kept = std::shared_ptr<py::object>;
Kept keep(py::object object);

/// Throws the exception that a Python signal handler raised, such as KeyboardInterrupt. Takes the
/// GIL.
void check_signals();

}  // namespace penstock::python
