#include "penstock/train/checkpoints/checkpoint_manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <span>

#include "penstock/base/checksum.h"
#include "penstock/base/mapped_file.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;
constexpr std::uint64_t kLargestManifest = 16 << 20;

std::string hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

std::uint64_t parse_hex(const std::string& text) {
  std::uint64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  PENSTOCK_CHECK(result.ec == std::errc() && result.ptr == text.data() + text.size(),
                 "a checksum is malformed");
  return value;
}

/// The checksum of a file, which is read in pieces.
std::uint64_t checksum_of(const std::filesystem::path& path,
                          const std::function<void()>& meanwhile) {
  constexpr std::size_t kPiece = 16 << 20;
  const MappedFile file(path);
  Xxh64 out;
  for (std::span<const std::byte> rest = file.bytes(); !rest.empty();) {
    const std::span<const std::byte> piece = rest.first(std::min(rest.size(), kPiece));
    out.update(piece);
    rest = rest.subspan(piece.size());
    if (meanwhile) meanwhile();
  }
  return out.value();
}

}  // namespace

std::string manifest_text(const CheckpointManifest& manifest) {
  json files = json::object();
  for (const auto& [name, digest] : manifest.files)
    files[name] = {{"bytes", digest.bytes}, {"xxh64", hex(digest.checksum)}};
  json out = {{"format", kFormat}, {"step", manifest.step}, {"files", files}};
  out["validation_loss"] = manifest.validation_loss ? json(*manifest.validation_loss) : json();
  out["xxh64"] = hex(xxh64(bytes_of(out.dump())));
  return out.dump(1) + "\n";
}

CheckpointManifest parse_manifest(const std::string& text) {
  try {
    json in = json::parse(text);
    const auto format = in.at("format").get<int>();
    PENSTOCK_CHECK(format == kFormat, "its format is ", format, ", this program reads ", kFormat);
    const auto own = parse_hex(in.at("xxh64").get<std::string>());
    in.erase("xxh64");
    PENSTOCK_CHECK(own == xxh64(bytes_of(in.dump())), "its own checksum does not match");
    CheckpointManifest out{.step = in.at("step").get<std::int64_t>()};
    if (const auto& loss = in.at("validation_loss"); !loss.is_null())
      out.validation_loss = loss.get<double>();
    for (const auto& [name, digest] : in.at("files").items()) {
      PENSTOCK_CHECK(
          !name.empty() && name.find('/') == std::string::npos && name != "." && name != "..",
          "it names a file outside the checkpoint");
      out.files[name] = {digest.at("bytes").get<std::uint64_t>(),
                         parse_hex(digest.at("xxh64").get<std::string>())};
    }
    return out;
  } catch (const json::exception&) {
    fail("it is malformed");
  }
}

CheckpointManifest verify_checkpoint(FileSystem& fs, const std::filesystem::path& directory,
                                     bool contents, const std::function<void()>& meanwhile) {
  const auto path = directory / kManifestName;
  PENSTOCK_CHECK(fs.exists(path), directory.string(), ": no ", kManifestName);
  const std::string text = fs.read(path, kLargestManifest);
  CheckpointManifest manifest;
  try {
    manifest = parse_manifest(text);
  } catch (const Error& error) {
    fail(path.string(), ": ", error.what());
  }
  for (const auto& [name, digest] : manifest.files) {
    const auto file = directory / name;
    PENSTOCK_CHECK(fs.exists(file), file.string(), ": missing");
    const auto size = fs.size(file);
    PENSTOCK_CHECK(size == digest.bytes, file.string(), ": ", size, " bytes, not ", digest.bytes);
    PENSTOCK_CHECK(!contents || checksum_of(file, meanwhile) == digest.checksum, file.string(),
                   ": checksum differs, the file is damaged");
  }
  return manifest;
}

std::optional<CheckpointManifest> verify_model(FileSystem& fs, const std::filesystem::path& model) {
  if (!fs.exists(model / kManifestName)) return std::nullopt;
  return verify_checkpoint(fs, model, /*contents=*/true);
}

}  // namespace penstock
