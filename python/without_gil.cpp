#include "python/without_gil.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "penstock/train/interrupt.h"

namespace penstock::python {
namespace {

namespace pb = pybind11;

std::atomic<int> at_work = 0;
// This thread's part of the count. A forked process has this thread alone.
thread_local int own_work = 0;
// Both are written and read with the GIL.
bool ending = false;
std::thread::id ending_thread;

/// Waits for the work of daemon threads. All other threads have ended when Python calls this.
void wait_for_work() {
  ending = true;
  ending_thread = std::this_thread::get_id();
  const pb::gil_scoped_release released;
  while (at_work > 0) {
    stop_guarded_work(SIGTERM);  // each time, for a run that had no guard yet
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void count_own_work() { at_work = own_work; }

}  // namespace

WithoutGil::Counted::Counted() {
  check_python_goes_on();
  ++at_work;
  ++own_work;
}

WithoutGil::Counted::~Counted() {
  --own_work;
  --at_work;
}

void check_python_goes_on() {
  if (!ending || std::this_thread::get_id() == ending_thread) return;
  PyErr_SetNone(PyExc_SystemExit);
  throw pb::error_already_set();
}

void end_work_with_python() {
  ::pthread_atfork(nullptr, nullptr, count_own_work);
  pb::module_::import("atexit").attr("register")(pb::cpp_function(wait_for_work));
}

}  // namespace penstock::python
