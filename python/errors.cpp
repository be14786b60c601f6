// The library's exceptions as Python's.
#include <c10/util/Exception.h>

#include "penstock/base/error.h"
#include "penstock/convert/export_target.h"
#include "penstock/train/run_control.h"
#include "python/bindings.h"

namespace penstock::python {

void add_errors(py::module_& module) {
  // Later ones are asked first: a class comes after the one that it is derived from.
  static py::exception<AssertionError> assertion(module, "BugError", PyExc_AssertionError);
  static py::exception<Error> error(module, "Error", PyExc_ValueError);
  static py::exception<DivergedError> diverged(module, "DivergedError", error.ptr());
  static py::exception<NotPortableError> not_portable(module, "NotPortableError", error.ptr());
  for (const py::handle& one :
       {py::handle(assertion), py::handle(error), py::handle(diverged), py::handle(not_portable)})
    one.attr("__module__") = "penstock";
  assertion.attr("__doc__") = "A bug in Penstock itself.";
  error.attr("__doc__") = "A mistake in the input: what is wrong, where, and what to do.";
  diverged.attr("__doc__") = "A loss or gradient was not finite. The last good step is saved.";
  not_portable.attr("__doc__") = "No file of the format computes what the model computes.";
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const DivergedError& e) {
      diverged(e.what());
    } catch (const NotPortableError& e) {
      not_portable(e.what());
    } catch (const Error& e) {
      error(e.what());
    } catch (const AssertionError& e) {
      assertion(e.what());
    } catch (const c10::IndexError& e) {
      PyErr_SetString(PyExc_IndexError, e.what_without_backtrace());
    } catch (const c10::Error& e) {
      PyErr_SetString(PyExc_RuntimeError, e.what_without_backtrace());
    }
  });
}

}  // namespace penstock::python
