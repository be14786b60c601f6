#include "penstock/data/corpus/token_spool.h"

#include <cstring>
#include <utility>

#include "penstock/base/error.h"

namespace penstock {
namespace {

constexpr std::size_t kSpoolBlock = 1 << 20;

}  // namespace

TokenSpool::TokenSpool(std::filesystem::path folder, std::uint32_t vocab_size)
    : file_(std::move(folder), "tokens"), vocab_size_(vocab_size) {
  block_.reserve(kSpoolBlock);
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
  file_.append(block_);
  block_.clear();
}

void TokenSpool::read(const std::function<void(Bytes)>& visit) {
  flush();
  std::vector<std::byte> buffer(kSpoolBlock);
  for (std::uint64_t at = 0; at < file_.size();) {
    const std::size_t got = file_.read(at, buffer);
    visit(Bytes(buffer).first(got));
    at += got;
  }
}

}  // namespace penstock
