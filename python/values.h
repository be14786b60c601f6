// Values between Python and the library: configuration trees, JSON, tensors. Tensors go by
// libtorch's own casters (torch/csrc/utils/pybind.h): both sides hold the same one, nothing is
// copied.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "penstock/base/config_node.h"

namespace penstock::python {

/// A dict, list, str, path, bool or number as a configuration tree; None is an empty node. Keys may
/// be dotted: {"train.steps": 100}. `origin` stands for the value in errors. Throws TypeError for
/// others.
ConfigNode to_config(py::handle value, const std::string& origin);
/// The tree as Python's dicts, lists and numbers.
py::object to_python(const ConfigNode& node);
py::object to_python(const nlohmann::json& value);
py::object to_python(const nlohmann::ordered_json& value);

/// A Python object that C++ keeps: it may be let go on any thread, and at the program's end.
using Kept = std::shared_ptr<py::object>;
Kept keep(py::object object);

/// Throws what a signal's handler in Python raised, such as KeyboardInterrupt. Takes the GIL.
void check_signals();

}  // namespace penstock::python
