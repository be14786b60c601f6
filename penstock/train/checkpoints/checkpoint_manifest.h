// manifest.json of a checkpoint. It lists the checkpoint's files with sizes and checksums, and has
// a checksum of its own. It is written last and read first.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "penstock/base/atomic_files.h"
#include "penstock/base/file_system.h"

namespace penstock {

inline constexpr const char* kManifestName = "manifest.json";

struct CheckpointManifest {
  std::int64_t step = 0;
  std::optional<double> validation_loss;
  std::map<std::string, FileDigest> files;
};

/// manifest.json, with a checksum of itself.
std::string manifest_text(const CheckpointManifest& manifest);
/// Throws Error, saying what is wrong, for anything that manifest_text did not write.
CheckpointManifest parse_manifest(const std::string& text);

/// Reads a checkpoint's manifest and compares the sizes of all files with it; with `contents`, also
/// their checksums. Throws Error when something is missing or differs.
/// @param meanwhile  called after each piece of a file that is read for its checksum
CheckpointManifest verify_checkpoint(FileSystem& fs, const std::filesystem::path& directory,
                                     bool contents, const std::function<void()>& meanwhile = {});

/// The manifest of a model that is a checkpoint, compared with all its files as verify_checkpoint()
/// does. Nothing for a model from elsewhere, which has no manifest.
std::optional<CheckpointManifest> verify_model(FileSystem& fs, const std::filesystem::path& model);

}  // namespace penstock
