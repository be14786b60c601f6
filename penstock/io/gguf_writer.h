// Writing GGUF: first the names, types and shapes of the tensors, then their bytes in order, so
// that only the part being written is in memory.
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

/// Bytes that such a tensor takes.
std::uint64_t gguf_bytes(const GgufPlanned& tensor);

/// Version 3, alignment 32: a file that is complete, or absent.
class GgufWriter {
 public:
  /// Writes the header. REQUIRES: keys differ, names differ, 1 to 4 sizes above 0, and rows of
  /// whole blocks (asserted).
  GgufWriter(FileSystem& fs, const std::filesystem::path& path, const GgufMetadata& metadata,
             std::vector<GgufPlanned> tensors);
  /// The next bytes of that tensor, in one piece or several; tensors come in the order given, and
  /// none gets more than its size (asserted).
  void write(const std::string& name, Bytes part);
  /// REQUIRES: every tensor is whole (asserted).
  void commit();

 private:
  std::vector<GgufPlanned> tensors_;
  std::size_t next_ = 0;
  std::uint64_t written_ = 0;  // of tensors_[next_]
  AtomicFile file_;
};

}  // namespace penstock
