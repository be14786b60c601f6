#include "python/values.h"

#include "penstock/io/config_json.h"

namespace penstock::python {
namespace {

ConfigNode table_of(const py::dict& entries, const std::string& origin) {
  ConfigNode out{ConfigNode::Table{}};
  for (const auto& [key, value] : entries) {
    const auto name = py::cast<std::string>(key);
    out.set(name, to_config(value, origin));
  }
  return out;
}

template <class Json>
py::object parsed(const Json& value) {
  return py::module_::import("json").attr("loads")(value.dump());
}

}  // namespace

ConfigNode to_config(py::handle value, const std::string& origin) {
  PyObject* const object = value.ptr();
  if (value.is_none()) return {};
  if (PyBool_Check(object)) return ConfigNode(object == Py_True, origin);
  if (PyFloat_Check(object)) return ConfigNode(py::cast<double>(value), origin);
  if (PyUnicode_Check(object)) return ConfigNode(py::cast<std::string>(value), origin);
  if (PyDict_Check(object)) return table_of(py::reinterpret_borrow<py::dict>(value), origin);
  if (PyList_Check(object) || PyTuple_Check(object)) {
    ConfigNode::Array items;
    for (const py::handle item : value) items.push_back(to_config(item, origin));
    return ConfigNode(std::move(items), origin);
  }
  if (py::hasattr(value, "__fspath__"))
    return ConfigNode(py::cast<std::string>(py::str(value.attr("__fspath__")())), origin);
  if (PyIndex_Check(object))
    return ConfigNode(py::cast<std::int64_t>(py::module_::import("operator").attr("index")(value)),
                      origin);
  if (PyNumber_Check(object))
    return ConfigNode(py::cast<double>(py::float_(py::reinterpret_borrow<py::object>(value))),
                      origin);
  throw py::type_error(origin + ": a bool, number, str, path, list or dict, not " +
                       py::cast<std::string>(py::str(py::type::handle_of(value))));
}

py::object to_python(const ConfigNode& node) { return to_python(to_json(node)); }
py::object to_python(const nlohmann::json& value) { return parsed(value); }
py::object to_python(const nlohmann::ordered_json& value) { return parsed(value); }

Kept keep(py::object object) {
  return {new py::object(std::move(object)), [](py::object* kept) {
            if (!Py_IsInitialized()) {
              kept->release();  // the interpreter has ended and freed the object
            } else {
              const py::gil_scoped_acquire gil;
              kept->dec_ref();
              kept->release();
            }
            delete kept;
          }};
}

void check_signals() {
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

}  // namespace penstock::python
