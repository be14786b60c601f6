// Writing a token file (see token_file.h). The whole content is in memory; durability is the
// caller's business (base/atomic_files.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base/file_system.h"
#include "penstock/data/token_file.h"

namespace penstock {

struct TokenFileContents {
  std::uint32_t vocab_size = 0;
  std::vector<std::string> domains;
  std::vector<DocumentRecord> documents;
  std::vector<std::uint32_t> tokens;
};

/// Writes header, tokens (2 bytes each where the vocabulary allows it, else 4) and tables, and
/// closes nothing.
/// REQUIRES: documents contiguous and grouped by split, token ids below vocab_size, as
/// TokenFile::open demands. Deterministic. Returns the content hash.
std::uint64_t write_token_file(OutputFile& out, const TokenFileContents& contents);

}  // namespace penstock
