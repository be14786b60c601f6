// Caches mean keys between upcyclings. A study's variants with the same model and text need the
// same keys, and each computation costs a pass over the text.
#pragma once

#include <string>
#include <vector>

#include "penstock/base/file_system.h"
#include "penstock/convert/upcycle/calibration.h"

namespace penstock {

/// A folder of mean keys. The cache key is the model's content (fingerprint.h), the windows' token
/// ids (hence text, number and length) and the KeyOptions. Processes may share the folder.
class KeyCache {
 public:
  /// A cache that keeps nothing.
  KeyCache() = default;
  /// @param directory  made when the first keys are written
  KeyCache(FileSystem& fs, std::string directory) : fs_(&fs), directory_(std::move(directory)) {}

  /// Returns mean_keys() of these arguments, bit for bit. Reads the keys if they are stored;
  /// otherwise computes and stores them. A file that cannot be read or does not fit is rewritten.
  /// Throws Error as mean_keys() does, and if a file cannot be written.
  std::vector<at::Tensor> keys_of(const ModelSource& dense, const at::Tensor& windows,
                                  const KeyOptions& options,
                                  const ConversionProgress& progress = {}) const;

 private:
  FileSystem* fs_ = nullptr;
  std::string directory_;
};

}  // namespace penstock
