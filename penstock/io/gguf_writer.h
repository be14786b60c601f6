// Writes GGUF: first the names, types and shapes of the tensors, then their bytes in order, so that
// only the part being written is in memory.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "penstock/base/atomic_files.h"
#include "penstock/io/gguf.h"

namespace penstock {

/// A tensor that will be written.
struct GgufPlanned {
  std::string name;
  GgmlType type = GgmlType::kF32;
  std::vector<std::int64_t> shape;  ///< row-major
};

/// The size of the tensor's data in bytes.
std::uint64_t gguf_bytes(const GgufPlanned& tensor);

/// Writes version 3 with alignment 32. The file appears only at commit().
class GgufWriter {
 public:
  /// Writes the header. REQUIRES: keys differ, names differ, 1 to 4 sizes above 0, and rows of
  /// whole blocks (asserted).
  GgufWriter(FileSystem& fs, const std::filesystem::path& path, const GgufMetadata& metadata,
             std::vector<GgufPlanned> tensors);
  /// Writes the next bytes of the tensor. REQUIRES: tensors are written in the constructor's order,
  /// each with no more bytes than its size (asserted).
  void write(const std::string& name, Bytes part);
  /// Finishes the file. REQUIRES: every tensor is complete (asserted).
  void commit();

 private:
  std::vector<GgufPlanned> tensors_;
  std::size_t next_ = 0;
  std::uint64_t written_ = 0;  // of tensors_[next_]
  AtomicFile file_;
};

}  // namespace penstock
