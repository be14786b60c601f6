#include "penstock/data/sha.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "penstock/base/error.h"

namespace penstock {
namespace {

/// Hashes bytes that come in pieces of any size. libcrypto fails here only without memory.
class Sha {
 public:
  explicit Sha(ShaKind kind) : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    const EVP_MD* digest = kind == ShaKind::kSha256 ? EVP_sha256() : EVP_sha1();
    PENSTOCK_ASSERT(context_ && EVP_DigestInit_ex(context_.get(), digest, nullptr));
  }

  void update(std::span<const std::byte> bytes) {
    PENSTOCK_ASSERT(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
  }

  /// Returns the hash in hexadecimal. No call may follow.
  std::string finish() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
    unsigned int size = 0;
    PENSTOCK_ASSERT(EVP_DigestFinal_ex(context_.get(), digest.data(), &size));
    std::string out;
    for (unsigned int i = 0; i < size; ++i) out += fmt::format("{:02x}", digest[i]);
    return out;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

const char* sha_name(ShaKind kind) { return kind == ShaKind::kSha256 ? "sha256" : "sha1"; }

std::string sha_of(std::span<const std::byte> bytes, ShaKind kind) {
  Sha sha(kind);
  sha.update(bytes);
  return sha.finish();
}

std::string sha_of_file(const std::string& path, ShaKind kind) {
  std::ifstream in(path, std::ios::binary);
  PENSTOCK_CHECK(in, "cannot read '", path, "': ", std::strerror(errno));
  Sha sha(kind);
  std::vector<char> buffer(1 << 20);
  while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount() > 0)
    sha.update(std::as_bytes(std::span(buffer).first(static_cast<std::size_t>(in.gcount()))));
  PENSTOCK_CHECK(!in.bad(), "cannot read '", path, "' to its end");
  return sha.finish();
}

}  // namespace penstock
