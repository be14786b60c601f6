// Writes a token file.
#include "penstock/data/corpus/token_file_writer.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "penstock/base/checksum.h"
#include "penstock/data/corpus/token_file_format.h"

namespace penstock {
namespace {

template <class T>
void append(std::vector<std::byte>& out, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

std::vector<std::byte> table_bytes(const TokenFileTables& tables) {
  std::vector<std::byte> out;
  for (const auto& d : tables.documents)
    append(out, token_file::Document{d.begin, d.tokens, d.bytes, d.domain,
                                     static_cast<std::uint32_t>(d.split)});
  for (const auto& name : tables.domains) {
    append(out, static_cast<std::uint32_t>(name.size()));
    const auto bytes = bytes_of(name);
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  return out;
}

/// The numbers of tokens of the shards.
std::vector<std::uint64_t> shard_lengths(std::uint64_t tokens, std::uint64_t most) {
  std::vector<std::uint64_t> out;
  for (std::uint64_t rest = tokens; most > 0 && (rest > 0 || out.empty()); rest -= out.back())
    out.push_back(std::min(rest, most));
  return out;
}

void write_shards(const std::vector<std::uint64_t>& lengths, TokenSpool& tokens,
                  const TokenShards& shards) {
  std::size_t next = 0;
  std::uint64_t room = 0;  // bytes still to write to the open shard
  std::unique_ptr<OutputFile> file;
  const auto open_next = [&] {
    if (file) file->close();
    file = shards.open(token_file::shard_path(shards.token_file, next, lengths.size()).string());
    room = lengths[next++] * tokens.token_width();
  };
  open_next();
  tokens.read([&](Bytes block) {
    while (!block.empty()) {
      if (room == 0) open_next();
      const Bytes some = block.first(std::min<std::size_t>(block.size(), room));
      file->write(some);
      room -= some.size();
      block = block.subspan(some.size());
    }
  });
  file->close();
}

}  // namespace

std::uint64_t write_token_file(OutputFile& out, const TokenFileTables& tables, TokenSpool& tokens,
                               const TokenShards& shards) {
  token_file::Header header;
  const bool sharded = shards.tokens > 0;
  if (sharded) header.version = token_file::kShardedVersion;
  header.token_width = tokens.token_width();
  header.vocab_size = tokens.vocab_size();
  header.tokens = tokens.tokens();
  header.documents = tables.documents.size();
  header.domains = tables.domains.size();
  const auto table = table_bytes(tables);
  header.names_bytes = table.size() - tables.documents.size() * sizeof(token_file::Document);
  const std::uint64_t token_bytes = sharded ? 0 : header.tokens * header.token_width;
  const std::vector<std::byte> padding((8 - token_bytes % 8) % 8);
  const std::vector<std::uint64_t> lengths = shard_lengths(header.tokens, shards.tokens);
  const auto shard_table = std::as_bytes(std::span(lengths));
  header.file_bytes =
      sizeof(header) + token_bytes + padding.size() + table.size() + shard_table.size();
  header.tables_hash = xxh64(table);
  Xxh64 hash;
  tokens.read([&](Bytes block) { hash.update(block); });
  header.content_hash = token_file::content_hash(hash, header.tables_hash);
  const auto bytes = std::as_bytes(std::span(&header, 1));
  header.header_hash = xxh64(bytes.first(offsetof(token_file::Header, header_hash)));
  out.write(bytes);
  if (!sharded) tokens.read([&](Bytes block) { out.write(block); });
  out.write(padding);
  out.write(table);
  out.write(shard_table);
  if (sharded) write_shards(lengths, tokens, shards);
  return header.content_hash;
}

}  // namespace penstock
