// Work of the library without Python's lock (the GIL), its calls of Python, and what becomes of
// both when Python ends.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <utility>

namespace penstock::python {

/// Releases the GIL while the object lives. Python's end waits for it, because the end destroys
/// what the work in a daemon thread still uses. Throws as check_python_goes_on() does.
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

/// Takes the GIL while the object lives, for work that calls Python. Python's end waits for such a
/// call only a short time, because a call may wait for ever. A thread whose call lasts longer stops
/// for ever at the end of its call: it never returns into a library that ends.
class WithGil {
 public:
  WithGil();
  ~WithGil();
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  std::optional<pybind11::gil_scoped_acquire> acquired_;
};

/// PyObject_CallObject() for a daemon thread. Python ends such a thread inside the call if Python
/// itself has ended, by unwinding the stack without the GIL. The thread stops for ever instead.
PyObject* call_object(PyObject* function, PyObject* arguments);

/// Calls a Python function from work, and throws what it raises. Requires WithGil.
template <class... Arguments>
pybind11::object call_python(const pybind11::object& function, Arguments&&... arguments) {
  const pybind11::tuple given = pybind11::make_tuple(std::forward<Arguments>(arguments)...);
  PyObject* const said = call_object(function.ptr(), given.ptr());
  if (!said) throw pybind11::error_already_set();
  return pybind11::reinterpret_steal<pybind11::object>(said);
}

/// Throws SystemExit, which ends a thread without a message, where Python ends and waits for this
/// thread. Requires the GIL.
void check_python_goes_on();

/// From this call on, Python's end stops runs, which save their last complete step, and waits for
/// work without the GIL. A signal handler that raises ends the wait.
void end_work_with_python();

}  // namespace penstock::python
