#include "penstock/ops/profile/profile.h"

#include <atomic>
#include <mutex>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/ops/machine/precision.h"
#include "penstock/ops/profile/profile_clock.h"
#include "penstock/ops/profile/profile_frames.h"

namespace penstock::ops {
namespace {

std::atomic<bool> active{false};
std::mutex mutex;
ProfileEntries operator_entries, scope_entries;

/// A call or scope that has begun on this thread. The time of the frames inside it is subtracted.
struct Frame {
  double start = 0;
  double inside = 0;
};
thread_local std::vector<Frame> frames;

thread_local int operators_running = 0;

void add(ProfileEntries& entries, const std::string& name, double seconds, const Cost& cost) {
  const std::lock_guard lock(mutex);
  ProfileEntry& entry = entries[name];
  ++entry.calls;
  entry.seconds += seconds;
  entry.flops += cost.flops;
  entry.bytes += cost.bytes;
  if (product_precision() == ProductPrecision::bf16) entry.bf16_flops += cost.flops;
}

}  // namespace

void begin_frame() { frames.push_back({.start = profile_seconds()}); }

double end_frame() {
  const Frame frame = frames.back();
  const double elapsed = profile_seconds() - frame.start;
  frames.pop_back();
  if (!frames.empty()) frames.back().inside += elapsed;
  return elapsed - frame.inside;
}

void add_scope(const std::string& name, double seconds) {
  add(scope_entries, name, seconds, {.bytes = 0});
}

bool inside_operator() { return operators_running > 0; }

bool profiling() { return active.load(std::memory_order_relaxed); }

Profile::Profile() {
  const bool another = active.exchange(true);
  PENSTOCK_ASSERT(!another, "another Profile lives");
  clear();
}
Profile::~Profile() { active = false; }

ProfileEntries Profile::operators() const {
  const std::lock_guard lock(mutex);
  return operator_entries;
}
ProfileEntries Profile::scopes() const {
  const std::lock_guard lock(mutex);
  return scope_entries;
}
void Profile::clear() {
  const std::lock_guard lock(mutex);
  operator_entries.clear();
  scope_entries.clear();
}

ProfileScope::ProfileScope(const char* name) : name_(profiling() ? name : nullptr) {
  if (name_) begin_frame();
}
ProfileScope::~ProfileScope() {
  if (name_) add_scope(name_, end_frame());
}

OperatorTimer::OperatorTimer() {
  ++operators_running;
  begin_frame();
}
OperatorTimer::~OperatorTimer() {
  if (!running_) return;
  end_frame();
  --operators_running;
}
void OperatorTimer::finish(const std::string& op_and_name, const Cost& cost) {
  running_ = false;
  const double seconds = end_frame();
  --operators_running;
  add(operator_entries, op_and_name, seconds, cost);
}

}  // namespace penstock::ops
