#include "penstock/models/files/fingerprint.h"

#include <fmt/format.h>

#include "penstock/base/checksum.h"
#include "penstock/base/file_system.h"
#include "penstock/models/files/model_directory.h"

namespace penstock {

std::string fingerprint(const ModelSource& source) {
  Xxh64 sum;
  sum.update(bytes_of(config_json_text(source.config())));
  for (const std::string& name : source.names()) {
    const at::Tensor tensor = source.tensor(name).contiguous();
    sum.update(bytes_of(name));
    sum.update({static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()});
  }
  return fmt::format("{:016x}", sum.value());
}

}  // namespace penstock
