// AMX's tile registers, of the calling thread.
#pragma once

namespace penstock::ops::bf16 {

/// While it lives, the tiles are configured: eight of 16 rows of 64 bytes. Inside another one it
/// does nothing.  REQUIRES: has_amx()
class AmxScope {
 public:
  AmxScope();
  ~AmxScope();
  AmxScope(const AmxScope&) = delete;
  AmxScope& operator=(const AmxScope&) = delete;
};

/// Whether the processor has AMX-BF16 and the system lets this process use it. Asks the system the
/// first time.
bool has_amx();

}  // namespace penstock::ops::bf16
