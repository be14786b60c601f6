// SHA-256 and SHA-1 (FIPS 180-4) by libcrypto, to compare downloads with published checksums. SHA-1
// is for files whose publishers give nothing better. Nothing here protects secrets.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace penstock {

enum class ShaKind { kSha256, kSha1 };

/// "sha256", "sha1".
const char* sha_name(ShaKind kind);

/// The digest of a file's bytes, 64 or 40 lower-case hexadecimal digits. Throws Error if the file
/// cannot be read.
std::string sha_of_file(const std::string& path, ShaKind kind);

/// The same for bytes in memory.
std::string sha_of(std::span<const std::byte> bytes, ShaKind kind);

}  // namespace penstock
