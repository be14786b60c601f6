// Laying out a token file.
#include "penstock/data/token_file_writer.h"

#include <cstddef>
#include <span>

#include "penstock/base/checksum.h"
#include "penstock/data/token_file_format.h"

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

}  // namespace

std::uint64_t write_token_file(OutputFile& out, const TokenFileTables& tables, TokenSpool& tokens) {
  token_file::Header header;
  header.token_width = tokens.token_width();
  header.vocab_size = tokens.vocab_size();
  header.tokens = tokens.tokens();
  header.documents = tables.documents.size();
  header.domains = tables.domains.size();
  const auto table = table_bytes(tables);
  header.names_bytes = table.size() - tables.documents.size() * sizeof(token_file::Document);
  const std::uint64_t token_bytes = header.tokens * header.token_width;
  const std::vector<std::byte> padding((8 - token_bytes % 8) % 8);
  header.file_bytes = sizeof(header) + token_bytes + padding.size() + table.size();
  header.tables_hash = xxh64(table);
  Xxh64 hash;
  tokens.read([&](Bytes block) { hash.update(block); });
  hash.update(std::as_bytes(std::span(&header.tables_hash, 1)));
  header.content_hash = hash.value();
  const auto bytes = std::as_bytes(std::span(&header, 1));
  header.header_hash = xxh64(bytes.first(offsetof(token_file::Header, header_hash)));
  out.write(bytes);
  tokens.read([&](Bytes block) { out.write(block); });
  out.write(padding);
  out.write(table);
  return header.content_hash;
}

}  // namespace penstock
