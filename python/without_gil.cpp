#include "python/without_gil.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "penstock/train/interrupt.h"

namespace penstock::python {
namespace {

namespace pb = pybind11;

std::atomic<int> at_work = 0;
// Both are written and read with the GIL.
bool ending = false;
std::thread::id ending_thread;

/// Waits for the work of daemon threads. All other threads have ended when Python calls this.
void wait_for_work(::pid_t process) {
  ending = true;
  ending_thread = std::this_thread::get_id();
  if (::getpid() != process) return;  // a forked process has the count, and not the threads
  const pb::gil_scoped_release released;
  while (at_work > 0) {
    stop_guarded_work(SIGTERM);  // each time, for a run that had no guard yet
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

WithoutGil::Counted::Counted() {
  check_python_goes_on();
  ++at_work;
}

WithoutGil::Counted::~Counted() { --at_work; }

void check_python_goes_on() {
  if (!ending || std::this_thread::get_id() == ending_thread) return;
  PyErr_SetNone(PyExc_SystemExit);
  throw pb::error_already_set();
}

void end_work_with_python() {
  pb::module_::import("atexit").attr("register")(
      pb::cpp_function([process = ::getpid()] { wait_for_work(process); }));
}

}  // namespace penstock::python
