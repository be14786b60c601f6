// Writes the tensors of a GGUF file under other metadata.
#pragma once

#include <string>
#include <vector>

#include "penstock/base/file_system.h"
#include "penstock/io/gguf.h"
#include "penstock/io/gguf_writer.h"

namespace penstock::testing {

inline void rewrite_gguf(const GgufFile& file, const GgufMetadata& metadata,
                         const std::string& path) {
  std::vector<GgufPlanned> planned;
  for (const GgufTensor& tensor : file.tensors())
    planned.push_back({tensor.name, tensor.type, tensor.shape});
  GgufWriter writer(real_file_system(), path, metadata, planned);
  for (const GgufTensor& tensor : file.tensors()) writer.write(tensor.name, tensor.data);
  writer.commit();
}

}  // namespace penstock::testing
