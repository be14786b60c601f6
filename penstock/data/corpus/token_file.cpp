// Opens a token file. Every part of the file is checked before it is used.
#include "penstock/data/corpus/token_file.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "penstock/base/checksum.h"
#include "penstock/base/error.h"
#include "penstock/base/mapped_file.h"
#include "penstock/data/corpus/token_file_format.h"

namespace penstock {

static_assert(sizeof(DocumentRecord) == sizeof(token_file::Document));

struct TokenFile::Mapped {
  /// Tokens [begin, end) and their bytes, which lie in the file `path`.
  struct Part {
    std::uint64_t begin = 0, end = 0;
    std::span<const std::byte> bytes;
    std::filesystem::path path;
    mutable FileStamp stamp;  // guarded by `stamps`

    /// Whether `now`, the stamp of the file at `path`, says that someone wrote to the mapped file,
    /// or set its time.
    bool touched(const std::optional<FileStamp>& now) const {
      return now && *now != stamp && now->same_file(stamp);
    }
  };

  std::string path;
  MappedFile file;
  token_file::Header header;
  std::vector<MappedFile> shards;
  mutable std::mutex stamps;
  std::vector<Part> parts;  // parts with all tokens, in order
  std::vector<DocumentRecord> documents;
  std::vector<std::string> domains;
  std::array<Range, kSplits> ranges;

  explicit Mapped(const std::string& path) : path(path), file(path) {}
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  template <class... Parts>
  void check(bool condition, const Parts&... what) const {
    if (!condition)
      fail("'", path, "' is not a usable token file: ", what...,
           "; make it again with 'penstock data prepare'");
  }
  bool sharded() const { return header.version == token_file::kShardedVersion; }
  std::size_t tables_offset() const {
    return sizeof(header) + (sharded() ? 0 : (header.tokens * header.token_width + 7) / 8 * 8);
  }
  std::size_t tables_size() const {
    return header.documents * sizeof(token_file::Document) + header.names_bytes;
  }
  std::span<const std::byte> tables() const {
    return file.bytes().subspan(tables_offset(), tables_size());
  }
  /// The numbers of tokens of the shards, as bytes.
  std::span<const std::byte> shard_table() const {
    return file.bytes().subspan(tables_offset() + tables_size());
  }

  void check_header();
  void find_tokens();
  void map_shard(std::size_t index, std::size_t count);
  void read_documents();
  void read_domains();
  bool holds_its_content() const;
  void check_unchanged(const Part& part) const;
};

void TokenFile::Mapped::check_header() {
  const std::size_t size = file.bytes().size();
  check(size >= sizeof(header), "it has ", size, " bytes, fewer than the header's ",
        sizeof(header));
  std::memcpy(&header, file.bytes().data(), sizeof(header));
  check(header.magic == token_file::kMagic, "it does not begin with the format's magic bytes");
  check(header.byte_order == token_file::kByteOrder, "it was written with another byte order");
  check(header.version == token_file::kVersion || sharded(), "its format version is ",
        header.version, " and this program reads versions ", token_file::kVersion, " and ",
        token_file::kShardedVersion);
  check(header.header_hash == xxh64(file.bytes().first(offsetof(token_file::Header, header_hash))),
        "its header is damaged (checksum)");
  check(header.token_width == 2 || header.token_width == 4, "tokens of ", header.token_width,
        " bytes");
  check(header.file_bytes == size, "it should have ", header.file_bytes, " bytes and has ", size,
        size < header.file_bytes ? " (truncated?)" : " (something was appended)");
  // Every count is bounded by the file's size, so the sums below cannot overflow.
  check((sharded() || header.tokens <= size) && header.documents <= size / sizeof(DocumentRecord) &&
            header.names_bytes <= size,
        "its counts exceed its size");
  const std::size_t parts_end = tables_offset() + tables_size();
  check(sharded() ? parts_end < size && (size - parts_end) % sizeof(std::uint64_t) == 0
                  : parts_end == size,
        "its parts do not add up to its size");
  check(header.vocab_size > 0, "its vocabulary is empty");
  check(header.tables_hash == xxh64(tables()), "its tables are damaged (checksum)");
}

void TokenFile::Mapped::find_tokens() {
  if (!sharded()) {
    parts.push_back(
        {.end = header.tokens,
         .bytes = file.bytes().subspan(sizeof(header), header.tokens * header.token_width),
         .path = path,
         .stamp = file.stamp()});
    return;
  }
  const std::size_t count = shard_table().size() / sizeof(std::uint64_t);
  check(count <= token_file::kMostShards, "it names ", count, " shards, more than ",
        token_file::kMostShards);
  for (std::size_t i = 0; i < count; ++i) map_shard(i, count);
  const std::uint64_t held = parts.back().end;
  check(held == header.tokens, "its shards hold ", held, " of its ", header.tokens, " tokens");
}

void TokenFile::Mapped::map_shard(std::size_t index, std::size_t count) {
  const std::filesystem::path shard = token_file::shard_path(path, index, count);
  std::uint64_t tokens = 0;
  std::memcpy(&tokens, shard_table().subspan(index * sizeof(tokens)).data(), sizeof(tokens));
  shards.emplace_back(shard);
  const std::span<const std::byte> bytes = shards.back().bytes();
  check(tokens <= bytes.size() && tokens * header.token_width == bytes.size(), "its shard ",
        shard.filename().string(), " should have ", tokens, " tokens of ", header.token_width,
        " bytes and has ", bytes.size(), " bytes");
  const std::uint64_t begin = parts.empty() ? 0 : parts.back().end;
  parts.push_back({.begin = begin,
                   .end = begin + tokens,
                   .bytes = bytes,
                   .path = shard,
                   .stamp = shards.back().stamp()});
}

void TokenFile::Mapped::read_documents() {
  documents.resize(header.documents);
  if (!documents.empty())
    std::memcpy(documents.data(), tables().data(), documents.size() * sizeof(DocumentRecord));
  std::uint64_t next = 0;
  Split last = Split::kTrain;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const auto& document = documents[i];
    check(document.begin == next && document.tokens > 0 && document.tokens <= header.tokens - next,
          "document ", i, " is out of place");
    check(document.domain < header.domains, "document ", i, " has an unknown domain");
    const auto split = static_cast<std::uint32_t>(document.split);
    check(split < kSplits && document.split >= last, "document ", i, " has an impossible split");
    auto& range = ranges[split];
    if (range.tokens == 0) range.begin = static_cast<std::int64_t>(next);
    range.tokens += static_cast<std::int64_t>(document.tokens);
    next += document.tokens;
    last = document.split;
  }
  check(next == header.tokens, "its documents hold ", next, " of its ", header.tokens, " tokens");
}

void TokenFile::Mapped::read_domains() {
  auto names = tables().subspan(header.documents * sizeof(token_file::Document));
  check(header.domains <= names.size(), "its domain names are cut short");
  for (std::uint64_t i = 0; i < header.domains; ++i) {
    std::uint32_t length = 0;
    check(names.size() >= sizeof(length), "its domain names are cut short");
    std::memcpy(&length, names.data(), sizeof(length));
    names = names.subspan(sizeof(length));
    check(length <= names.size(), "its domain names are cut short");
    domains.emplace_back(reinterpret_cast<const char*>(names.data()), length);
    names = names.subspan(length);
  }
  check(names.empty(), "bytes follow its domain names");
}

bool TokenFile::Mapped::holds_its_content() const {
  Xxh64 hash;
  for (const Part& part : parts) hash.update(part.bytes);
  return token_file::content_hash(hash, header.tables_hash) == header.content_hash;
}

/// Throws if someone wrote other content into the part's file since it was mapped. A file that was
/// deleted or replaced by another file stays mapped as it was. Only the time of a file changes
/// where it is touched, or where a file system over a network learns the server's time. That mostly
/// happens to all files at once, so one hash of the content checks all of them.
void TokenFile::Mapped::check_unchanged(const Part& part) const {
  const std::optional<FileStamp> seen = file_stamp(part.path);
  const std::scoped_lock lock(stamps);
  if (!part.touched(seen)) return;
  // The stamps are taken before the hash: a later write gives a file another stamp.
  std::vector<std::pair<const Part*, FileStamp>> touched;
  for (const Part& each : parts) {
    const std::optional<FileStamp> now = file_stamp(each.path);
    if (!each.touched(now)) continue;
    check(now->size == each.stamp.size, each.path.filename().string(), " had ", each.stamp.size,
          " bytes and has ", now->size, " now: it was changed while it was in use");
    touched.emplace_back(&each, *now);
  }
  if (touched.empty()) return;  // another thread has checked the content since `seen`
  // The hash does not tell which of several files has other content.
  const Part& first = *touched.front().first;
  check(holds_its_content(), touched.size() == 1 ? first.path.filename().string() : "its content",
        " was changed while it was in use");
  for (const auto& [each, now] : touched) each->stamp = now;
}

TokenFile TokenFile::open(const std::string& path) {
  auto mapped = std::make_shared<Mapped>(path);
  mapped->check_header();
  mapped->find_tokens();
  mapped->read_documents();
  mapped->read_domains();
  return TokenFile(std::move(mapped));
}

const std::string& TokenFile::path() const { return mapped_->path; }
std::int64_t TokenFile::vocab_size() const { return mapped_->header.vocab_size; }
std::int64_t TokenFile::tokens() const { return static_cast<std::int64_t>(mapped_->header.tokens); }
int TokenFile::token_width() const { return static_cast<int>(mapped_->header.token_width); }
std::span<const DocumentRecord> TokenFile::documents() const { return mapped_->documents; }
const std::vector<std::string>& TokenFile::domains() const { return mapped_->domains; }
std::size_t TokenFile::shards() const { return mapped_->shards.size(); }
std::uint64_t TokenFile::content_hash() const { return mapped_->header.content_hash; }

TokenFile::Range TokenFile::range(Split split) const {
  return mapped_->ranges[static_cast<std::size_t>(split)];
}

std::size_t TokenFile::document_at(std::int64_t token) const {
  PENSTOCK_ASSERT(token >= 0 && token < tokens());
  const auto& documents = mapped_->documents;
  const auto after = std::upper_bound(
      documents.begin(), documents.end(), static_cast<std::uint64_t>(token),
      [](std::uint64_t position, const DocumentRecord& d) { return position < d.begin; });
  return static_cast<std::size_t>(after - documents.begin()) - 1;
}

void TokenFile::read(std::int64_t begin, std::span<std::int64_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  PENSTOCK_ASSERT(begin >= 0 && count <= tokens() && begin <= tokens() - count);
  const auto widen = [&]<class T>(T, const std::byte* from, std::span<std::int64_t> to) {
    std::int64_t largest = 0;
    for (std::int64_t& each : to) {
      T token;
      std::memcpy(&token, from, sizeof(T));
      from += sizeof(T);
      each = token;
      largest = std::max<std::int64_t>(largest, token);
    }
    mapped_->check(largest < vocab_size(), "token id ", largest, " near token ", begin,
                   " is outside its vocabulary of ", vocab_size());
  };
  const auto& parts = mapped_->parts;
  auto next = static_cast<std::uint64_t>(begin);
  auto part = std::ranges::upper_bound(parts, next, {}, &Mapped::Part::end);
  for (; !out.empty(); ++part) {
    mapped_->check_unchanged(*part);
    const auto some = out.first(std::min<std::uint64_t>(out.size(), part->end - next));
    const std::byte* const from = part->bytes.data() + (next - part->begin) * token_width();
    token_width() == 2 ? widen(std::uint16_t{}, from, some) : widen(std::uint32_t{}, from, some);
    out = out.subspan(some.size());
    next += some.size();
  }
}

void TokenFile::verify() const {
  mapped_->check(mapped_->holds_its_content(), "its tokens are damaged (checksum)");
}

}  // namespace penstock
