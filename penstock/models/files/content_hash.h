// The hash of a model on disk, in sixteen digits. Moving the model does not change the hash;
// changing the content does.
#pragma once

#include <map>
#include <string>

namespace penstock {

/// XXH64 of a model, as 16 hexadecimal digits. For a model directory, it is over the names and
/// bytes of config.json and the .safetensors files, sorted by name. For a model in one file, it is
/// over the file's bytes.
/// Throws Error if there is nothing to read.
/// Cost: reads everything once.
std::string model_content_hash(const std::string& path);

/// The hashes of several models, or of what else `hash` reads. Each path is read only once.
class ContentHashes {
 public:
  using Hash = std::string (*)(const std::string& path);
  explicit ContentHashes(Hash hash = model_content_hash) : hash_(hash) {}
  const std::string& of(const std::string& path);

 private:
  Hash hash_;
  std::map<std::string, std::string> known_;
};

}  // namespace penstock
