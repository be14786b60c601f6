// What an upcycled model takes of memory and disk, told before anything is made.
#pragma once

#include <string>

#include "penstock/convert/upcycle/tensor_origins.h"
#include "penstock/models/model_config.h"

namespace penstock {

struct UpcycledSize {
  double file_bytes = 0;    ///< of the weights
  double memory_bytes = 0;  ///< routers without their queries, the list of tensors, the largest
                            ///< tensor; not the parent
  double tensors = 0;       ///< of the file
};

/// Of the model of that config, counted without making it.
UpcycledSize upcycled_size(const ModelConfig& config, TensorOrigins& origins);

/// What this machine has left for it.
struct UpcyclingRoom {
  double memory = 0, disk = 0;
};
UpcyclingRoom room_for_upcycling(const std::string& out);

/// Throws Error, with the figures, where the size is more than the room.
void check_upcycled_size(const UpcycledSize& size, const UpcyclingRoom& room,
                         const ModelConfig& config, const std::string& out);

}  // namespace penstock
