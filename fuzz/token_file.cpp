// Fuzzes a tokens.bin. Unless the input's first byte is odd, the harness first corrects the file's
// checksums: they detect accidental damage, but not a file made with intent.
#include "penstock/data/corpus/token_file.h"

#include <algorithm>
#include <cstring>

#include "fuzz/input.h"
#include "fuzz/memory_file.h"
#include "penstock/base/checksum.h"
#include "penstock/data/corpus/token_file_format.h"

namespace {

void make_good(std::string& file) {
  using namespace penstock;
  token_file::Header header;
  if (file.size() < sizeof header) return;
  std::memcpy(&header, file.data(), sizeof header);
  header.magic = token_file::kMagic;
  const bool sharded = header.version == token_file::kShardedVersion;
  if (!sharded) header.version = token_file::kVersion;
  header.byte_order = token_file::kByteOrder;
  header.file_bytes = file.size();
  const auto bytes = std::as_bytes(std::span(file));
  // The reader expects the tables at this offset, if the offset is inside the file.
  const std::uint64_t tokens = sharded ? 0 : header.tokens * header.token_width;
  const std::uint64_t tables = sizeof header + (tokens + 7) / 8 * 8;
  if (tokens <= file.size() && tables <= file.size()) {
    const std::uint64_t rest = file.size() - tables;
    // In a file with shards, the table of shards follows. It has no checksum. The harness writes no
    // shards, so the reader never finds one.
    const std::uint64_t hashed =
        header.documents * sizeof(token_file::Document) + header.names_bytes;
    header.tables_hash = xxh64(bytes.subspan(tables, sharded ? std::min(hashed, rest) : rest));
    Xxh64 hash;
    hash.update(bytes.subspan(sizeof header, tokens));
    header.content_hash = token_file::content_hash(hash, header.tables_hash);
  }
  header.header_hash =
      xxh64(std::as_bytes(std::span(&header, 1)).first(offsetof(token_file::Header, header_hash)));
  std::memcpy(file.data(), &header, sizeof header);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  if (size == 0) return 0;
  std::string content(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] % 2 == 0) make_good(content);
  const fuzz::MemoryFile memory(content);
  fuzz::expect_answer([&] {
    const TokenFile file = TokenFile::open(memory.path());
    fuzz::expect_answer([&] { file.verify(); });
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(file.tokens()));
    fuzz::expect_answer([&] { file.read(0, tokens); });
    for (const auto split : {Split::kTrain, Split::kValidation, Split::kTest}) {
      const auto range = file.range(split);
      if (range.begin < 0 || range.tokens < 0 || range.begin + range.tokens > file.tokens())
        __builtin_trap();
    }
    for (const auto& document : file.documents())
      if (document.domain >= file.domains().size()) __builtin_trap();
    for (std::int64_t token = 0; token < file.tokens(); ++token)
      if (file.document_at(token) >= file.documents().size()) __builtin_trap();
  });
  return 0;
}
