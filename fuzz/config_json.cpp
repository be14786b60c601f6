// Fuzzes the reading of a config.json into JSON and into a tree of values. It does not read a model
// from the values: tests/models mutates them for that, because models need libtorch.
#include "penstock/io/config_json.h"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "fuzz/memory_file.h"
#include "penstock/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const fuzz::MemoryFile file(std::string_view(reinterpret_cast<const char*>(data), size));
  try {
    to_json(config_from_json(read_json(file.path()), "config.json"));
  } catch (const Error&) {
  }
  return 0;
}
