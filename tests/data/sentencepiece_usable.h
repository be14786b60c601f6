// Whether tests can train tokenizers in this build.
#pragma once

namespace penstock::testing {

/// False under AddressSanitizer. It refuses RTLD_DEEPBIND, which gives SentencePiece its own symbol
/// scope and keeps its protobuf apart from libtorch's.
constexpr bool sentencepiece_usable() {
#ifdef __SANITIZE_ADDRESS__
  return false;
#else
  return true;
#endif
}

}  // namespace penstock::testing
