// Conversion of values between Python and the library: configuration trees, JSON, tensors. Tensors
// use libtorch's own casters (torch/csrc/utils/pybind.h): both sides hold the same tensor, and
// nothing is copied.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "penstock/base/config_node.h"
#include "penstock/cli/arguments/whole_number.h"

namespace penstock::python {

/// Converts a dict, list, str, path, bool or number to a configuration tree, and None to an empty
/// node. Keys may be dotted: {"train.steps": 100}. `origin` and `name` name the value in errors;
/// the names of values below it begin with `name`. Throws Error for other types, for values that
/// the library cannot hold and for more than kMostLevels levels.
ConfigNode to_config(py::handle value, const std::string& origin, const std::string& name = {});
/// The value as TOML text. Throws Error that begins with `name` for an empty node or a table.
std::string toml_text(const ConfigNode& value, const std::string& name);

/// The value of a str, an int or a number. Errors begin with `name`. Throws Error for other types
/// and for values that the library cannot hold: text with a lone surrogate, whole numbers outside
/// [least, most].
std::string text_of(py::handle value, const std::string& name);
std::int64_t whole_number_of(py::handle value, const std::string& name, std::int64_t least,
                             std::int64_t most = kLargestCount);
double number_of(py::handle value, const std::string& name);
/// A seed: a whole number from 0 to 2^63 - 1.
std::uint64_t seed_of(py::handle value, const std::string& name);

/// The text as a str. Bytes that are not UTF-8, such as a character that is cut, become U+FFFD.
py::str decoded(std::string_view text);

/// Converts the tree to Python dicts, lists, strings and numbers.
py::object to_python(const ConfigNode& node);
py::object to_python(const nlohmann::json& value);
py::object to_python(const nlohmann::ordered_json& value);

/// A Python object that C++ keeps alive. Any thread may release it, also at the program's end.
using Kept = std::shared_ptr<py::object>;
Kept keep(py::object object);

/// Throws the exception that a Python signal handler raised, such as KeyboardInterrupt, and
/// SystemExit where Python ends meanwhile. Takes the GIL.
void check_signals();

}  // namespace penstock::python
