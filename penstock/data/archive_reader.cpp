#include "penstock/data/archive_reader.h"

#include <archive.h>
#include <archive_entry.h>

#include <type_traits>
#include <utility>

#include "penstock/base/error.h"

namespace penstock {
namespace {

constexpr std::size_t kBlockBytes = 1 << 16;

}  // namespace

static_assert(std::is_same_v<la_ssize_t, long>, "ArchiveReader::read_outer returns it");

void ArchiveReader::Free::operator()(archive* a) const { archive_read_free(a); }

ArchiveReader::ArchiveReader(std::string path)
    : path_(std::move(path)), archive_(archive_read_new()), buffer_(kBlockBytes) {
  PENSTOCK_ASSERT(archive_ != nullptr);
}

ArchiveReader::ArchiveReader(const std::string& path, ArchiveKind kind) : ArchiveReader(path) {
  support(kind);
  check(archive_read_open_filename(archive_.get(), path.c_str(), kBlockBytes));
  check_beginning();
}

ArchiveReader::ArchiveReader(ArchiveReader& outer, ArchiveKind kind)
    : ArchiveReader(outer.path_ + ":" + outer.member_name()) {
  outer_ = &outer;
  support(kind);
  check(archive_read_open(archive_.get(), this, nullptr, &read_outer, nullptr));
  check_beginning();
}

long ArchiveReader::read_outer(archive* self, void* reader, const void** block) {
  auto& inner = *static_cast<ArchiveReader*>(reader);
  archive* outer = inner.outer_->archive_.get();
  const la_ssize_t got = archive_read_data(outer, inner.buffer_.data(), inner.buffer_.size());
  *block = inner.buffer_.data();
  if (got >= 0) return got;
  const char* why = archive_error_string(outer);
  archive_set_error(self, archive_errno(outer), "%s", why ? why : "damaged file");
  return ARCHIVE_FATAL;
}

void ArchiveReader::support(ArchiveKind kind) {
  archive_read_support_filter_all(archive_.get());
  // A ZIP file within an archive cannot be searched for the list of members at its end.
  if (kind == ArchiveKind::kZip && outer_)
    archive_read_support_format_zip_streamable(archive_.get());
  else if (kind == ArchiveKind::kZip)
    archive_read_support_format_zip(archive_.get());
  if (kind == ArchiveKind::kTar) archive_read_support_format_tar(archive_.get());
  if (kind == ArchiveKind::kAr) archive_read_support_format_ar(archive_.get());
  if (kind == ArchiveKind::kCompressed) {
    archive_read_support_format_raw(archive_.get());
    archive_read_support_format_empty(archive_.get());  // raw needs at least one byte
  }
}

void ArchiveReader::check_beginning() {
  if (archive_error_string(archive_.get())) check(ARCHIVE_FATAL);
}

bool ArchiveReader::next() {
  for (;;) {
    const int status = archive_read_next_header(archive_.get(), &entry_);
    if (status == ARCHIVE_EOF) return false;
    check(status);
    if (archive_entry_filetype(entry_) == AE_IFREG) return true;
  }
}

bool ArchiveReader::is_compressed() const {
  return archive_filter_code(archive_.get(), 0) != ARCHIVE_FILTER_NONE;
}

std::string ArchiveReader::member_name() const {
  const char* name = archive_entry_pathname_utf8(entry_);
  if (!name) name = archive_entry_pathname(entry_);
  return name ? name : "member without a name";
}

std::string ArchiveReader::content(std::uint64_t& limit) {
  std::string out;
  content(limit, [&](std::string_view block) { out += block; });
  out.shrink_to_fit();  // a caller may keep many contents
  return out;
}

void ArchiveReader::content(std::uint64_t& limit,
                            const std::function<void(std::string_view)>& visit) {
  std::vector<char> buffer(kBlockBytes);
  for (;;) {
    const auto got = archive_read_data(archive_.get(), buffer.data(), buffer.size());
    if (got < 0) check(got);
    if (got <= 0) return;
    const auto bytes = static_cast<std::uint64_t>(got);
    PENSTOCK_CHECK(bytes <= limit, "'", path_,
                   "' unpacks to more than is allowed; unpack and divide it");
    limit -= bytes;
    visit({buffer.data(), bytes});
  }
}

void ArchiveReader::check(long status) {
  if (status == ARCHIVE_OK || status > 0) return;
  const char* why = archive_error_string(archive_.get());
  // A warning concerns a member's name or dates, which do not matter here.
  if (status == ARCHIVE_WARN) return;
  fail("cannot read '", path_, "': ", why ? why : "damaged file",
       " (truncated or damaged? get the file again)");
}

}  // namespace penstock
