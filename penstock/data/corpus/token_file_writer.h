// Writing a token file (see token_file.h), block by block; durability is the caller's business
// (base/atomic_files.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "penstock/base/file_system.h"
#include "penstock/data/corpus/token_file.h"
#include "penstock/data/corpus/token_spool.h"

namespace penstock {

struct TokenFileTables {
  std::vector<std::string> domains;
  std::vector<DocumentRecord> documents;
};

/// Where tokens go that do not lie in the token file: at most so many into each file, which `open`
/// makes by its name.
struct TokenShards {
  std::uint64_t tokens = 0;     ///< 0: no shards
  std::string token_file = {};  ///< its name, of which theirs are made
  std::function<std::unique_ptr<OutputFile>(const std::string& name)> open = {};
};

/// Writes header, tokens (2 bytes each where the vocabulary allows it, else 4) and tables, and
/// closes nothing but shards.
/// REQUIRES: documents contiguous and grouped by split, as TokenFile::open demands. Deterministic.
/// Returns the content hash, which shards do not change. Cost: reads the tokens twice, since the
/// header has their hash.
std::uint64_t write_token_file(OutputFile& out, const TokenFileTables& tables, TokenSpool& tokens,
                               const TokenShards& shards = {});

}  // namespace penstock
