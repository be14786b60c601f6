// What a model on disk is, in sixteen digits: another place gives the same, another content does
// not.
#pragma once

#include <map>
#include <string>

namespace penstock {

/// XXH64 over the names and bytes of a model directory's config.json and .safetensors files, sorted
/// by name, or over the bytes of a model in one file; 16 hexadecimal digits.
/// Throws Error where there is nothing to read. Cost: reads everything once.
std::string model_content_hash(const std::string& path);

/// The same of several models, each place read once.
class ModelHashes {
 public:
  const std::string& of(const std::string& path);

 private:
  std::map<std::string, std::string> known_;
};

}  // namespace penstock
