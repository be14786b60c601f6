// Work of the library without Python's lock (the GIL), and what becomes of it when Python ends.
#pragma once

#include <pybind11/pybind11.h>

namespace penstock::python {

/// Releases the GIL while the object lives. Python's end waits for it, because the end destroys
/// what the work in a daemon thread still uses. Throws as check_python_goes_on() does.
class WithoutGil {
 public:
  WithoutGil() = default;
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  struct Counted {
    Counted();
    ~Counted();
  };
  Counted counted_;  // first: the work counts until its thread has the GIL again
  pybind11::gil_scoped_release released_;
};

/// Throws SystemExit, which ends a thread without a message, where Python ends and waits for this
/// thread. Requires the GIL.
void check_python_goes_on();

/// From this call on, Python's end stops runs, which save their last complete step, and waits for
/// all work without the GIL.
void end_work_with_python();

}  // namespace penstock::python
