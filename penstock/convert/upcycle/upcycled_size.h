// Counts the memory and disk that an upcycled model takes, before it is made.
#pragma once

#include <string>

#include "penstock/convert/upcycle/tensor_origins.h"
#include "penstock/models/model_config.h"

namespace penstock {

struct UpcycledSize {
  double file_bytes = 0;    ///< bytes of the weights' file
  double memory_bytes = 0;  ///< routers without their queries, the list of tensors, the largest
                            ///< tensor; not the parent
  double tensors = 0;       ///< number of tensors in the file
};

/// The size of the config's model, counted without making it.
UpcycledSize upcycled_size(const ModelConfig& config, TensorOrigins& origins);

/// The free memory and disk of this machine.
struct UpcyclingRoom {
  double memory = 0, disk = 0;
};
UpcyclingRoom room_for_upcycling(const std::string& out);

/// Throws Error, with the figures, if the size exceeds the free memory or disk.
void check_upcycled_size(const UpcycledSize& size, const UpcyclingRoom& room,
                         const ModelConfig& config, const std::string& out);

}  // namespace penstock
