// Whether tests can train tokenizers in this build.
#pragma once

namespace penstock::testing {

/// False under AddressSanitizer, which refuses the symbol scope of its own (RTLD_DEEPBIND) that
/// keeps SentencePiece's protobuf apart from libtorch's.
constexpr bool sentencepiece_usable() {
#ifdef __SANITIZE_ADDRESS__
  return false;
#else
  return true;
#endif
}

}  // namespace penstock::testing
