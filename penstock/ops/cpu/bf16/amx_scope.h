// The AMX tile registers of the calling thread.
#pragma once

namespace penstock::ops::bf16 {

/// While the object lives, eight tiles of 16 rows of 64 bytes are configured. A scope inside
/// another scope does nothing.  REQUIRES: has_amx()
class AmxScope {
 public:
  AmxScope();
  ~AmxScope();
  AmxScope(const AmxScope&) = delete;
  AmxScope& operator=(const AmxScope&) = delete;
};

/// Whether the processor has AMX-BF16 and the system lets this process use it. The first call asks
/// the system.
bool has_amx();

}  // namespace penstock::ops::bf16
