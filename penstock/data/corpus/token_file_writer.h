// Writes a token file (token_file.h) block by block. The caller makes it durable
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

/// How to write the tokens into shards beside the token file: each shard gets at most `tokens`, and
/// `open` creates the shard of a name.
struct TokenShards {
  std::uint64_t tokens = 0;     ///< 0: no shards
  std::string token_file = {};  ///< the token file's name, from which the shards' names are made
  std::function<std::unique_ptr<OutputFile>(const std::string& name)> open = {};
};

/// Writes header, tokens (2 bytes each if the vocabulary allows it, else 4) and tables. Closes the
/// shards, but not `out`. Deterministic.
/// REQUIRES: documents are contiguous and grouped by split, as in TokenFile::documents().
/// Returns the content hash, which does not depend on shards. Cost: reads the tokens twice, since
/// the header has their hash.
std::uint64_t write_token_file(OutputFile& out, const TokenFileTables& tables, TokenSpool& tokens,
                               const TokenShards& shards = {});

}  // namespace penstock
