#include "penstock/data/corpus/token_spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "penstock/base/error.h"

namespace penstock {
namespace {

constexpr std::size_t kSpoolBlock = 1 << 20;

}  // namespace

TokenSpool::TokenSpool(std::filesystem::path folder, std::uint32_t vocab_size)
    : folder_(std::move(folder)), vocab_size_(vocab_size) {
  std::string name = (folder_ / ".penstock-tokens-XXXXXX").string();
  file_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (file_ < 0) fail_to("make a file for the tokens in", errno);
  ::unlink(name.c_str());
  block_.reserve(kSpoolBlock);
}

TokenSpool::~TokenSpool() { ::close(file_); }

void TokenSpool::fail_to(const char* action, int code) const {
  const std::string what =
      concat("cannot ", action, " ", folder_.string(), ": ", std::generic_category().message(code));
  if (code == ENOSPC || code == EDQUOT) throw DiskFullError(what + " (disk full); free some space");
  throw Error(what);
}

void TokenSpool::add(std::span<const TokenId> ids) {
  const std::size_t width = token_width();
  for (const TokenId token : ids) {
    const auto id = static_cast<std::uint32_t>(token);
    PENSTOCK_ASSERT(id < vocab_size_);
    std::byte bytes[sizeof(id)];
    std::memcpy(bytes, &id, sizeof(id));  // little-endian: the low bytes come first
    block_.insert(block_.end(), bytes, bytes + width);
    if (block_.size() >= kSpoolBlock) flush();
  }
  tokens_ += ids.size();
}

void TokenSpool::flush() {
  for (Bytes rest = block_; !rest.empty();) {
    const ssize_t done = ::write(file_, rest.data(), rest.size());
    if (done < 0 && errno != EINTR) fail_to("keep tokens in", errno);
    if (done > 0) rest = rest.subspan(static_cast<std::size_t>(done));
  }
  written_ += block_.size();
  block_.clear();
}

void TokenSpool::read(const std::function<void(Bytes)>& visit) {
  flush();
  std::vector<std::byte> buffer(kSpoolBlock);
  for (std::uint64_t at = 0; at < written_;) {
    const ssize_t got = ::pread(file_, buffer.data(), buffer.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail_to("read back tokens from", got < 0 ? errno : EIO);
    visit(Bytes(buffer).first(static_cast<std::size_t>(got)));
    at += static_cast<std::uint64_t>(got);
  }
}

}  // namespace penstock
