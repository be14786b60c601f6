// A profile of the operators: calls, wall time, FLOPs and bytes of each operator, collected while a
// Profile lives. Without a Profile, an operator only pays a relaxed atomic load. It does not print
// and computes no rooflines (bench does).
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace penstock::ops {

/// The least that one call needs. FLOPs are useful ones: two for each multiply-add of the formula,
/// none for recomputation.
struct Cost {
  double flops = 0;
  double bytes = -1;  ///< traffic with memory; -1: every operand and result once
};

struct ProfileEntry {
  std::int64_t calls = 0;
  double seconds = 0;  ///< without the time of the entries inside it
  double flops = 0, bytes = 0;
  double bf16_flops = 0;  ///< those of `flops` that ran while this thread's products were in bf16
};
using ProfileEntries = std::map<std::string, ProfileEntry>;

/// Collects while it lives; one at a time in a process (asserted).
class Profile {
 public:
  Profile();
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  /// By "<operator>/<implementation>", as dispatch_counts().
  ProfileEntries operators() const;
  /// By the name of a ProfileScope: work outside the operators.
  ProfileEntries scopes() const;
  void clear();
};

/// True while a Profile lives.
bool profiling();

/// Times a piece of work that is not an operator. While a Profile lives, it adds its own lifetime
/// to the entry `name`. `name` must outlive it.
class ProfileScope {
 public:
  explicit ProfileScope(const char* name);
  ~ProfileScope();
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  const char* name_;  // null if no Profile lived at the start
};

/// Times one call of an operator; for Implementations::run.
class OperatorTimer {
 public:
  OperatorTimer();
  ~OperatorTimer();
  OperatorTimer(const OperatorTimer&) = delete;
  OperatorTimer& operator=(const OperatorTimer&) = delete;
  /// Ends the call and records it. Without finish(), the call is not recorded (the operator threw).
  void finish(const std::string& op_and_name, const Cost& cost);

 private:
  bool running_ = true;
};

}  // namespace penstock::ops
