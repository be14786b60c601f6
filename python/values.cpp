#include "python/values.h"

#include <algorithm>
#include <limits>

#include "penstock/base/error.h"
#include "penstock/io/config_json.h"
#include "python/without_gil.h"

namespace penstock::python {
namespace {

/// The place of a value in errors: "set train.steps", "model.layers", "options: a".
std::string place_of(const std::string& origin, const std::string& name) {
  return origin + (origin.empty() || name.empty() ? "" : ": ") + name;
}

std::string shown(py::handle value) { return py::cast<std::string>(py::repr(value)); }

/// The value as a whole number of Python; null where it is none. A tensor is one if it holds a
/// single whole number.
py::object index_of(py::handle value) {
  PyObject* const number = PyIndex_Check(value.ptr()) ? PyNumber_Index(value.ptr()) : nullptr;
  if (!number) PyErr_Clear();
  return py::reinterpret_steal<py::object>(number);
}

ConfigNode config_of(py::handle value, const std::string& origin, const std::string& name,
                     int levels);

ConfigNode table_of(const py::dict& entries, const std::string& origin, const std::string& name,
                    int levels) {
  ConfigNode out{ConfigNode::Table{}};
  for (const auto& [key, value] : entries) {
    const std::string word = text_of(
        key, place_of(origin, name) + (origin.empty() && name.empty() ? "" : ": ") + "a key");
    const auto dots = static_cast<int>(std::ranges::count(word, '.'));
    out.set(word,
            config_of(value, origin, name + (name.empty() ? "" : ".") + word, levels + dots + 1));
  }
  return out;
}

ConfigNode array_of(py::handle values, const std::string& origin, const std::string& name,
                    int levels) {
  ConfigNode::Array items;
  for (const py::handle item : values)
    items.push_back(config_of(item, origin, concat(name, "[", items.size(), "]"), levels + 1));
  return ConfigNode(std::move(items), origin);
}

ConfigNode config_of(py::handle value, const std::string& origin, const std::string& name,
                     int levels) {
  PyObject* const object = value.ptr();
  const std::string place = place_of(origin, name);
  PENSTOCK_CHECK(levels <= kMostLevels, place.substr(0, 80), "...: nested deeper than ",
                 kMostLevels, " levels");
  if (value.is_none()) return {};
  if (PyBool_Check(object)) return ConfigNode(object == Py_True, origin);
  if (PyFloat_Check(object)) return ConfigNode(py::cast<double>(value), origin);
  if (PyUnicode_Check(object)) return ConfigNode(text_of(value, place), origin);
  if (PyDict_Check(object))
    return table_of(py::reinterpret_borrow<py::dict>(value), origin, name, levels);
  if (PyList_Check(object) || PyTuple_Check(object)) return array_of(value, origin, name, levels);
  if (py::hasattr(value, "__fspath__"))
    return ConfigNode(text_of(value.attr("__fspath__")(), place), origin);
  using Limits = std::numeric_limits<std::int64_t>;
  if (index_of(value))
    return ConfigNode(whole_number_of(value, place, Limits::min(), Limits::max()), origin);
  if (PyNumber_Check(object)) return ConfigNode(number_of(value, place), origin);
  fail(place, place.empty() ? "" : ": ", "expected a bool, number, str, path, list or dict, found ",
       py::cast<std::string>(py::str(py::type::handle_of(value))));
}

template <class Json>
py::object parsed(const Json& value) {
  return py::module_::import("json").attr("loads")(value.dump());
}

}  // namespace

ConfigNode to_config(py::handle value, const std::string& origin, const std::string& name) {
  return config_of(value, origin, name, 0);
}

std::string toml_text(const ConfigNode& value, const std::string& name) {
  PENSTOCK_CHECK(!value.empty() && !value.is_table(), name,
                 ": expected a bool, number, str or list, found ", value.type_name());
  ConfigNode holder;
  holder.set("v", value);
  const std::string line = to_toml(holder);  // "v = 0.5\n"
  return line.substr(4, line.size() - 5);
}

std::string text_of(py::handle value, const std::string& name) {
  PENSTOCK_CHECK(PyUnicode_Check(value.ptr()), name, ": must be a str, not ", shown(value));
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
  if (!text) PyErr_Clear();
  PENSTOCK_CHECK(text, name, ": has a lone surrogate, which is not text: ", shown(value));
  return {text, static_cast<std::size_t>(size)};
}

std::int64_t whole_number_of(py::handle value, const std::string& name, std::int64_t least,
                             std::int64_t most) {
  const py::object whole = index_of(value);
  std::string text = shown(whole ? py::handle(whole) : value);
  const std::string problem = whole_number(least, most)(text);
  PENSTOCK_CHECK(whole && problem.empty(), name, ": ",
                 problem.empty() ? "must be a whole number, not " + text : problem);
  return py::cast<std::int64_t>(whole);
}

std::uint64_t seed_of(py::handle value, const std::string& name) {
  return static_cast<std::uint64_t>(
      whole_number_of(value, name, 0, std::numeric_limits<std::int64_t>::max()));
}

double number_of(py::handle value, const std::string& name) {
  const double number = PyFloat_AsDouble(value.ptr());
  const bool failed = PyErr_Occurred() != nullptr;
  if (failed) PyErr_Clear();
  PENSTOCK_CHECK(!failed, name, ": must be a number that 64 bits hold, not ", shown(value));
  return number;
}

py::str decoded(std::string_view text) {
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

py::object to_python(const ConfigNode& node) { return to_python(to_json(node)); }
py::object to_python(const nlohmann::json& value) { return parsed(value); }
py::object to_python(const nlohmann::ordered_json& value) { return parsed(value); }

Kept keep(py::object object) {
  return {new py::object(std::move(object)), [](py::object* kept) {
            if (!Py_IsInitialized()) {
              kept->release();  // the interpreter has ended and freed the object
            } else {
              const WithGil gil;
              kept->dec_ref();
              kept->release();
            }
            delete kept;
          }};
}

void check_signals() {
  const WithGil gil;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  check_python_goes_on();
}

}  // namespace penstock::python
