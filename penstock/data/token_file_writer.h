// Writing a token file (see token_file.h), block by block; durability is the caller's business
// (base/atomic_files.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base/file_system.h"
#include "penstock/data/token_file.h"
#include "penstock/data/token_spool.h"

namespace penstock {

struct TokenFileTables {
  std::vector<std::string> domains;
  std::vector<DocumentRecord> documents;
};

/// Writes header, tokens (2 bytes each where the vocabulary allows it, else 4) and tables, and
/// closes nothing.
/// REQUIRES: documents contiguous and grouped by split, as TokenFile::open demands. Deterministic.
/// Returns the content hash. Cost: reads the tokens twice, since the header has their hash.
std::uint64_t write_token_file(OutputFile& out, const TokenFileTables& tables, TokenSpool& tokens);

}  // namespace penstock
