#include "python/without_gil.h"

#include <cxxabi.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <thread>

#include "penstock/train/interrupt.h"

namespace penstock::python {
namespace {

namespace pb = pybind11;

/// How long Python's end waits while all work stands inside calls of Python.
constexpr auto kLongestCall = std::chrono::seconds(2);
/// How long it waits for daemon threads that are between two calls of the library. Their next call
/// ends them (check_python_goes_on). Where Python itself ends them, it unwinds their stacks, and if
/// they stand in a destructor of C++ the process ends with them.
constexpr auto kBetweenCalls = std::chrono::milliseconds(200);

std::atomic<int> at_work = 0;              // objects of WithoutGil
std::atomic<int> in_calls = 0;             // objects of WithGil
std::atomic<std::uint64_t> all_calls = 0;  // that have begun
// This thread's part of the counts. A forked process has this thread alone.
thread_local int own_work = 0;
thread_local int own_calls = 0;
// Python's end no longer waits for work.
std::atomic<bool> left_alone = false;
// Both are written and read with the GIL.
bool ending = false;
std::thread::id ending_thread;

[[noreturn]] void stop_for_ever() {
  for (;;) ::pause();
}

/// Stops a thread that works without the GIL where Python's end no longer waits for it.
void stop_if_left_alone() {
  const bool without_gil = own_work > own_calls;
  if (without_gil && left_alone && std::this_thread::get_id() != ending_thread) stop_for_ever();
}

/// Calls a function of Python. Where Python has ended, such a function may end the thread by
/// unwinding its stack, and destructors would then use Python without the GIL.
template <class Function>
auto or_stop_for_ever(const Function& function) {
  try {
    return function();
  } catch (const abi::__forced_unwind&) {
    stop_for_ever();
  }
}

/// Waits until no work and no other thread is left, but not longer than kBetweenCalls without work,
/// nor than kLongestCall while all work stands in the same calls of Python.
/// @param threading  Python's module
void wait_while_work_moves(const pb::object& threading) {
  using Clock = std::chrono::steady_clock;
  auto moved = Clock::now(), worked = moved;
  std::uint64_t known_calls = all_calls;
  const auto other_threads = [&] { return pb::cast<int>(threading.attr("active_count")()) > 1; };
  while (at_work > 0 || (Clock::now() - worked < kBetweenCalls && other_threads())) {
    if (at_work > 0) worked = Clock::now();
    if (at_work > in_calls || all_calls != known_calls) {
      moved = Clock::now();
      known_calls = all_calls;
    }
    if (at_work > 0 && Clock::now() - moved > kLongestCall) return;
    {
      const pb::gil_scoped_release released;
      stop_guarded_work(SIGTERM);  // each time, for a run that had no guard yet
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (PyErr_CheckSignals() != 0) throw pb::error_already_set();
  }
}

/// Waits for the work of daemon threads. All other threads have ended when Python calls this.
void wait_for_work(const pb::object& threading) {
  ending = true;
  ending_thread = std::this_thread::get_id();
  try {
    wait_while_work_moves(threading);
  } catch (...) {
    left_alone = true;
    throw;
  }
  left_alone = at_work > 0;
}

void count_own_work() {
  at_work = own_work;
  in_calls = own_calls;
}

}  // namespace

WithoutGil::WithoutGil() {
  check_python_goes_on();
  ++at_work;
  ++own_work;
  state_ = PyEval_SaveThread();
}

WithoutGil::~WithoutGil() {
  stop_if_left_alone();
  or_stop_for_ever([this] { PyEval_RestoreThread(state_); });
  --own_work;  // last: the work counts until its thread has the GIL again
  --at_work;
}

WithGil::WithGil() {
  stop_if_left_alone();
  or_stop_for_ever([this] { acquired_.emplace(); });
  ++in_calls;
  ++own_calls;
  ++all_calls;
}

WithGil::~WithGil() {
  acquired_.reset();
  --own_calls;
  --in_calls;
  stop_if_left_alone();
}

PyObject* call_object(PyObject* function, PyObject* arguments) {
  return or_stop_for_ever([&] { return PyObject_CallObject(function, arguments); });
}

void check_python_goes_on() {
  if (!ending || std::this_thread::get_id() == ending_thread) return;
  PyErr_SetNone(PyExc_SystemExit);
  throw pb::error_already_set();
}

void end_work_with_python() {
  ::pthread_atfork(nullptr, nullptr, count_own_work);
  const pb::object threading = pb::module_::import("threading");
  pb::module_::import("atexit").attr("register")(
      pb::cpp_function([threading] { wait_for_work(threading); }));
}

}  // namespace penstock::python
