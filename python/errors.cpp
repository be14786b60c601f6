// The library's exceptions as Python exceptions.
#include <c10/util/Exception.h>

#include "penstock/base/error.h"
#include "penstock/base/member_names.h"
#include "penstock/convert/export/export_model.h"
#include "penstock/convert/export/not_portable.h"
#include "penstock/convert/upcycle/upcycle_options.h"
#include "penstock/train/evaluation_settings.h"
#include "penstock/train/run_control.h"
#include "python/bindings.h"

namespace penstock::python {
namespace {

// The exception classes live until the process ends.
PyObject *assertion, *error, *diverged, *not_portable;

PyObject* exception(py::module_& module, const std::string& name, PyObject* base, const char* doc) {
  PyObject* const made =
      PyErr_NewExceptionWithDoc(("penstock." + name).c_str(), doc, base, nullptr);
  if (!made) throw py::error_already_set();
  module.attr(name.c_str()) = py::handle(made);
  return made;
}

/// The name in Python of a member of the library's options; "" for what is no member.
std::string python_name(const std::string& member) {
  if (member == "resume" || member == "force") return member + "=True";
  if (member == "with_tokenizer") return "tokenizer";
  for (const auto& fields : {describe_config<UpcycleOptions>(), describe_config<ExportOptions>(),
                             describe_config<EvaluationOverrides>()})
    for (const FieldDescription& field : fields)
      if (field.path == member) return member;
  return "";
}

/// The library's message with the arguments of Python's functions in place of members.
std::string in_python(const char* message) { return with_members(message, python_name); }

/// Raises the exception with that text. PyErr_SetString() would drop a text that is not UTF-8, such
/// as one with words of a damaged file.
void raise_exception(PyObject* type, const std::string& text) {
  const py::str message = decoded(text);
  if (message) PyErr_SetObject(type, message.ptr());  // else another exception is raised
}

}  // namespace

void add_errors(py::module_& module) {
  assertion = exception(module, "BugError", PyExc_AssertionError, "A bug in Penstock itself.");
  error = exception(module, "Error", PyExc_ValueError,
                    "A mistake in the input. The text says what is wrong, where, and what to do.");
  diverged = exception(module, "DivergedError", error,
                       "A loss or gradient was not finite. The last good step is saved.");
  not_portable = exception(module, "NotPortableError", error,
                           "No file of the format computes what the model computes.");
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const DivergedError& e) {
      raise_exception(diverged, in_python(e.what()));
    } catch (const NotPortableError& e) {
      raise_exception(not_portable, in_python(e.what()));
    } catch (const Error& e) {
      raise_exception(error, in_python(e.what()));
    } catch (const AssertionError& e) {
      raise_exception(assertion, e.what());
    } catch (const c10::IndexError& e) {
      raise_exception(PyExc_IndexError, e.what_without_backtrace());
    } catch (const c10::Error& e) {
      raise_exception(PyExc_RuntimeError, e.what_without_backtrace());
    }
  });
}

}  // namespace penstock::python
