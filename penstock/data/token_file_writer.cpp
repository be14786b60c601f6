// Laying out a token file.
#include "penstock/data/token_file_writer.h"

#include <cstring>
#include <span>

#include "penstock/base/error.h"
#include "penstock/data/token_file_format.h"

namespace penstock {
namespace {

template <class T>
void append(std::vector<std::byte>& out, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

std::vector<std::byte> token_bytes(const TokenFileContents& contents, std::uint32_t width) {
  std::vector<std::byte> out((contents.tokens.size() * width + 7) / 8 * 8);
  for (std::size_t i = 0; i < contents.tokens.size(); ++i) {
    const std::uint32_t token = contents.tokens[i];
    PENSTOCK_ASSERT(token < contents.vocab_size);
    // Little-endian: the low bytes come first.
    std::memcpy(out.data() + i * width, &token, width);
  }
  return out;
}

std::vector<std::byte> table_bytes(const TokenFileContents& contents) {
  std::vector<std::byte> out;
  for (const auto& d : contents.documents)
    append(out, token_file::Document{d.begin, d.tokens, d.bytes, d.domain,
                                     static_cast<std::uint32_t>(d.split)});
  for (const auto& name : contents.domains) {
    append(out, static_cast<std::uint32_t>(name.size()));
    const auto bytes = bytes_of(name);
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  return out;
}

}  // namespace

std::uint64_t write_token_file(OutputFile& out, const TokenFileContents& contents) {
  token_file::Header header;
  header.token_width = contents.vocab_size <= 65536 ? 2 : 4;
  header.vocab_size = contents.vocab_size;
  header.tokens = contents.tokens.size();
  header.documents = contents.documents.size();
  header.domains = contents.domains.size();
  const auto tokens = token_bytes(contents, header.token_width);
  const auto tables = table_bytes(contents);
  header.names_bytes = tables.size() - contents.documents.size() * sizeof(token_file::Document);
  header.file_bytes = sizeof(header) + tokens.size() + tables.size();
  header.tables_hash = xxh64(tables);
  header.content_hash = token_file::content_hash(
      std::span(tokens).first(header.tokens * header.token_width), header.tables_hash);
  const auto bytes = std::as_bytes(std::span(&header, 1));
  header.header_hash = xxh64(bytes.first(offsetof(token_file::Header, header_hash)));
  out.write(bytes);
  out.write(tokens);
  out.write(tables);
  return header.content_hash;
}

}  // namespace penstock
