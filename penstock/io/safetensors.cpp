// Reads safetensors headers and files. safetensors_writer.cpp writes them.
#include "penstock/io/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "penstock/io/lfs_pointer.h"
#include "penstock/io/shown_name.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr std::size_t kLargestRank = 64;

struct DtypeRow {
  Dtype dtype;
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array<DtypeRow, 10> kDtypes = {{{Dtype::kBool, "BOOL", 1},
                                               {Dtype::kU8, "U8", 1},
                                               {Dtype::kI8, "I8", 1},
                                               {Dtype::kI16, "I16", 2},
                                               {Dtype::kI32, "I32", 4},
                                               {Dtype::kI64, "I64", 8},
                                               {Dtype::kF16, "F16", 2},
                                               {Dtype::kBF16, "BF16", 2},
                                               {Dtype::kF32, "F32", 4},
                                               {Dtype::kF64, "F64", 8}}};

const DtypeRow& row_of(Dtype dtype) { return *std::ranges::find(kDtypes, dtype, &DtypeRow::dtype); }

/// Parses a header, or an index of shards. Unlike a plain parse, it refuses repeated keys, and deep
/// nesting, which would take many times the memory of its text. Throws json::exception for what is
/// no JSON.
/// @param what  begins the errors
json parse_flat(std::string_view text, const std::string& what) {
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int depth, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) {
      PENSTOCK_CHECK(depth < 3, what, " is nested too deeply");
      keys.emplace_back();
    } else if (event == json::parse_event_t::array_start) {
      PENSTOCK_CHECK(depth < 3, what, " is nested too deeply");
    } else if (event == json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == json::parse_event_t::key) {
      const auto& key = value.get_ref<const std::string&>();
      PENSTOCK_CHECK(keys.back().insert(key).second, what, " names '", shown_name(key), "' twice");
    }
    return true;
  };
  return json::parse(text, watch);
}

json parse_header(std::string_view text, const std::string& origin) {
  try {
    return parse_flat(text, origin + ": the safetensors header");
  } catch (const json::exception&) {
    fail(origin,
         ": the safetensors header is not valid JSON; the file is damaged or of another kind");
  }
}

json parse_index(std::string_view text, const std::string& origin) {
  try {
    return parse_flat(text, origin + ": the index of shards");
  } catch (const json::exception&) {
    fail(origin, ": not an index of shards (no valid JSON)");
  }
}

std::uint64_t unsigned_value(const json& value, const std::string& where) {
  PENSTOCK_CHECK(value.is_number_unsigned(), where, " is not a whole number of 0 or more");
  return value.get<std::uint64_t>();
}

/// One entry of the header, with its bytes in `data`. `data` is the part of the file after the
/// header.
TensorView read_entry(const std::string& name, const json& entry, std::span<const std::byte> data,
                      const std::string& origin) {
  const std::string where = origin + ": tensor '" + shown_name(name) + "': ";
  PENSTOCK_CHECK(entry.is_object() && entry.size() == 3 && entry.contains("dtype") &&
                     entry.contains("shape") && entry.contains("data_offsets"),
                 where, "expected dtype, shape and data_offsets");
  const auto& type = entry["dtype"];
  const auto* row =
      type.is_string()
          ? std::ranges::find(kDtypes, type.get_ref<const std::string&>(), &DtypeRow::name)
          : kDtypes.end();
  PENSTOCK_CHECK(row != kDtypes.end(), where, "unknown dtype ",
                 type.is_string() ? shown_name(type.get_ref<const std::string&>()) : "");
  TensorView view{.name = name, .dtype = row->dtype};

  const auto& shape = entry["shape"];
  PENSTOCK_CHECK(shape.is_array() && shape.size() <= kLargestRank, where,
                 "the shape is not an array of at most ", kLargestRank, " sizes");
  std::uint64_t bytes = row->bytes;
  bool overflow = false, empty = false;
  for (const auto& item : shape) {
    const auto size = unsigned_value(item, where + "a size");
    PENSTOCK_CHECK(size <= std::uint64_t(std::numeric_limits<std::int64_t>::max()), where,
                   "a size is out of range");
    view.shape.push_back(static_cast<std::int64_t>(size));
    empty |= size == 0;
    overflow |= size != 0 && __builtin_mul_overflow(bytes, size, &bytes);
  }
  // If one size is 0, the other sizes must still fit, because their product is a stride.
  PENSTOCK_CHECK(!overflow && bytes <= std::uint64_t(std::numeric_limits<std::int64_t>::max()),
                 where, "the shape is too large");
  if (empty) bytes = 0;

  const auto& offsets = entry["data_offsets"];
  PENSTOCK_CHECK(offsets.is_array() && offsets.size() == 2, where, "data_offsets are not a pair");
  const auto begin = unsigned_value(offsets[0], where + "an offset");
  const auto end = unsigned_value(offsets[1], where + "an offset");
  PENSTOCK_CHECK(begin <= end && end <= data.size(), where, "its bytes [", begin, ", ", end,
                 ") lie outside the file's ", data.size(), "; the file is damaged or cut short");
  PENSTOCK_CHECK(end - begin == bytes, where, "its shape needs ", bytes,
                 " bytes, its offsets give ", end - begin);
  view.data = data.subspan(begin, bytes);
  return view;
}

void check_no_gaps(const std::vector<TensorView>& tensors, std::span<const std::byte> data,
                   const std::string& origin) {
  std::vector<const TensorView*> order;
  for (const auto& tensor : tensors)
    if (!tensor.data.empty()) order.push_back(&tensor);
  std::ranges::sort(order, {}, [](const TensorView* tensor) { return tensor->data.data(); });
  const std::byte* at = data.data();
  for (const auto* tensor : order) {
    PENSTOCK_CHECK(tensor->data.data() == at, origin, ": tensor '", shown_name(tensor->name), "' ",
                   tensor->data.data() < at ? "overlaps another" : "leaves a gap before it");
    at += tensor->data.size();
  }
  PENSTOCK_CHECK(at == data.data() + data.size(), origin, ": ", data.data() + data.size() - at,
                 " bytes at the end belong to no tensor");
}

const TensorView* find_by_name(const std::vector<TensorView>& tensors, std::string_view name) {
  const auto it = std::ranges::lower_bound(tensors, name, {}, &TensorView::name);
  return it != tensors.end() && it->name == name ? &*it : nullptr;
}

}  // namespace

std::string_view dtype_name(Dtype dtype) { return row_of(dtype).name; }
std::size_t dtype_bytes(Dtype dtype) { return row_of(dtype).bytes; }

SafetensorsHeader parse_safetensors(std::span<const std::byte> file, const std::string& origin) {
  check_no_lfs_pointer(file, origin);
  std::uint64_t length = 0;
  PENSTOCK_CHECK(file.size() >= sizeof length, origin, ": ", file.size(),
                 " bytes are too few for a safetensors file");
  std::memcpy(&length, file.data(), sizeof length);
  file = file.subspan(sizeof length);
  PENSTOCK_CHECK(length <= file.size() && length <= kLargestSafetensorsHeader, origin,
                 ": the safetensors header claims ", length,
                 " bytes; the file is damaged, cut short, or of another kind");
  const std::string_view text(reinterpret_cast<const char*>(file.data()), length);
  PENSTOCK_CHECK(text.starts_with('{'), origin, ": not a safetensors file (no header)");
  const json header = parse_header(text, origin);
  PENSTOCK_CHECK(header.is_object(), origin, ": the safetensors header is not an object");

  SafetensorsHeader out;
  const auto data = file.subspan(length);
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      PENSTOCK_CHECK(entry.is_object(), origin, ": __metadata__ is not an object");
      for (const auto& [key, value] : entry.items()) {
        PENSTOCK_CHECK(value.is_string(), origin, ": __metadata__ '", shown_name(key),
                       "' is not a string");
        out.metadata[key] = value.get<std::string>();
      }
    } else {
      out.tensors.push_back(read_entry(name, entry, data, origin));
    }
  }
  std::ranges::sort(out.tensors, {}, &TensorView::name);
  check_no_gaps(out.tensors, data, origin);
  return out;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : file_(path), header_(parse_safetensors(file_.bytes(), path.string())) {}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  return find_by_name(header_.tensors, name);
}

std::filesystem::path find_safetensors(const std::filesystem::path& directory) {
  for (const char* const name : {"model.safetensors", "model.safetensors.index.json"})
    if (std::filesystem::exists(directory / name)) return directory / name;
  constexpr std::string_view kMissing =
      ": neither model.safetensors nor model.safetensors.index.json is here";
  for (const char* const name : {"pytorch_model.bin", "pytorch_model.bin.index.json"})
    PENSTOCK_CHECK(!std::filesystem::exists(directory / name), directory.string(), kMissing, "; ",
                   name, " is a pickle, which could run code: save the model as safetensors");
  fail(directory.string(), kMissing);
}

SafetensorsModel::SafetensorsModel(const std::filesystem::path& path) {
  const std::filesystem::path file =
      std::filesystem::is_directory(path) ? find_safetensors(path) : path;
  if (file.extension() == ".json") {
    read_index(file);
  } else {
    files_.emplace_back(file);
    tensors_ = files_.front().tensors();
  }
}

void SafetensorsModel::read_index(const std::filesystem::path& path) {
  const std::string origin = path.string();
  const json index = parse_index(real_file_system().read(path, kLargestSafetensorsHeader), origin);
  PENSTOCK_CHECK(index.is_object() && index.contains("weight_map") &&
                     index["weight_map"].is_object() && !index["weight_map"].empty(),
                 origin, ": not an index of shards (no weight_map)");
  std::map<std::string, std::size_t> shards;  // file name to position in files_
  for (const auto& [name, shard] : index["weight_map"].items()) {
    PENSTOCK_CHECK(shard.is_string(), origin, ": '", shown_name(name), "' names no file");
    const auto& file = shard.get_ref<const std::string&>();
    // An index is untrusted: its file names must not lead out of its directory.
    PENSTOCK_CHECK(!file.empty() && file.find('/') == std::string::npos &&
                       file.find('\0') == std::string::npos && file != "." && file != "..",
                   origin, ": '", shown_name(file), "' is not the name of a file beside the index");
    const auto [at, fresh] = shards.emplace(file, files_.size());
    if (fresh) {
      const std::filesystem::path shard_path = parent_directory(path) / file;
      std::error_code none;  // a file that cannot be asked about is opened, which says why
      PENSTOCK_CHECK(std::filesystem::exists(shard_path, none) || none, origin, ": names the file ",
                     shown_name(file), ", which is not there; copy it to ",
                     parent_directory(path).string(), ", or download the model again");
      files_.emplace_back(shard_path);
    }
    const auto* tensor = files_[at->second].find(name);
    PENSTOCK_CHECK(tensor, origin, ": tensor '", shown_name(name), "' is not in ",
                   shown_name(file));
    tensors_.push_back(*tensor);
  }
  std::ranges::sort(tensors_, {}, &TensorView::name);
  // Without this check, a tensor that is not in the index would be dropped silently.
  for (const auto& [file, at] : shards)
    for (const TensorView& tensor : files_[at].tensors()) {
      const auto entry = index["weight_map"].find(tensor.name);
      PENSTOCK_CHECK(entry != index["weight_map"].end() && *entry == file, origin, ": tensor '",
                     shown_name(tensor.name), "' of ", shown_name(file),
                     " is not in the weight_map");
    }
}

const TensorView* SafetensorsModel::find(std::string_view name) const {
  return find_by_name(tensors_, name);
}

}  // namespace penstock
