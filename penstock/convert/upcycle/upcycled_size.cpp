#include "penstock/convert/upcycle/upcycled_size.h"

#include <algorithm>

#include "penstock/base/disk_space.h"
#include "penstock/base/error.h"
#include "penstock/base/memory.h"
#include "penstock/base/number_text.h"
#include "penstock/models/counts/model_tensors.h"
#include "penstock/routers/parameter_names.h"

namespace penstock {
namespace {

constexpr const char* kForceAdvice = ", or try it all the same with options.force";
/// Memory for the name, the shape and the maker of one tensor until it is written. The measured
/// value is 1,830 bytes.
constexpr double kTensorBytes = 2048;
/// Bytes per number of a tensor that is made while the parent's tensor is held, both in F32.
constexpr double kMakingBytes = 2 * sizeof(float);

}  // namespace

UpcycledSize upcycled_size(const ModelConfig& config, TensorOrigins& origins) {
  UpcycledSize out;
  double largest = 0;
  for (const ModelTensor& tensor : model_tensors(config)) {
    const double numbers = static_cast<double>(tensor.size()),
                 count = static_cast<double>(std::max<std::int64_t>(1, tensor.experts));
    const bool routes = tensor.role == TensorRole::router || tensor.role == TensorRole::balancer;
    const at::ScalarType type = routes ? at::kFloat : origins.type_of(tensor.name());
    const double bytes = numbers * static_cast<double>(c10::elementSize(type)) * count;
    out.file_bytes += bytes;
    out.tensors += count;
    // All other router tensors are made before writing. Queries are too if a start is measured with
    // them. They do not count here, so the result may be too small but not too large.
    if (routes && !tensor.name().ends_with(kHeadQueries)) out.memory_bytes += bytes;
    largest = std::max(largest, numbers);
  }
  out.memory_bytes += out.tensors * kTensorBytes + largest * kMakingBytes;
  return out;
}

UpcyclingRoom room_for_upcycling(const std::string& out) {
  return {.memory = available_memory_bytes(), .disk = free_disk_bytes(out)};
}

void check_upcycled_size(const UpcycledSize& size, const UpcyclingRoom& room,
                         const ModelConfig& config, const std::string& out) {
  const std::string experts = concat(
      "options.experts = ", config.moe.experts,
      config.moe.granularity > 1 ? concat(", options.granularity = ", config.moe.granularity) : "");
  PENSTOCK_CHECK(size.file_bytes <= room.disk, experts, ": the model takes ",
                 size_text(size.file_bytes), " and the disk of ", out, " has ",
                 size_text(room.disk), " free; ask for fewer experts, write it to another disk",
                 kForceAdvice);
  PENSTOCK_CHECK(size.memory_bytes <= room.memory, experts, ": writing the model's ",
                 number_text(size.tensors), " tensors takes about ", size_text(size.memory_bytes),
                 " of memory and this machine has ", size_text(room.memory),
                 " free; ask for fewer experts", kForceAdvice);
}

}  // namespace penstock
