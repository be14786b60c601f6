#include "penstock/serve/object_reader.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "penstock/base/json_error.h"

namespace penstock::serve {

using nlohmann::json;

json parse_object(std::string_view body, int depth) {
  std::vector<std::set<std::string>> open;  // the keys so far of each object that has not ended
  const auto watch = [&](int level, json::parse_event_t event, const json& parsed) {
    if (level > depth)
      throw RequestError(400, fmt::format("the JSON is more than {} levels deep", depth));
    if (event == json::parse_event_t::object_start) open.emplace_back();
    if (event == json::parse_event_t::object_end) open.pop_back();
    if (event == json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!open.back().insert(key).second)
        throw RequestError(400, fmt::format("'{}' comes twice in one object", key), key);
    }
    return true;
  };
  json out;
  try {
    out = json::parse(body, watch);
  } catch (const json::exception& error) {
    throw RequestError(400, fmt::format("the body is not JSON: {}", json_error_text(error)));
  }
  if (!out.is_object()) throw RequestError(400, "the body must be a JSON object");
  return out;
}

ObjectReader::ObjectReader(const json& object, std::string name)
    : object_(object), name_(std::move(name)) {
  if (!object.is_object()) throw RequestError(400, name_ + " must be an object", name_);
}

void ObjectReader::refuse(const std::string& key, const std::string& why) const {
  const std::string full = name_.empty() ? key : name_ + "." + key;
  throw RequestError(400, fmt::format("'{}' {}", full, why), full);
}

const json* ObjectReader::find(const std::string& key) {
  known_.insert(key);
  const auto it = object_.find(key);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

std::optional<bool> ObjectReader::boolean(const std::string& key) {
  const json* value = find(key);
  if (!value) return {};
  if (!value->is_boolean()) refuse(key, "must be true or false");
  return value->get<bool>();
}

std::optional<std::int64_t> ObjectReader::integer(const std::string& key, std::int64_t least,
                                                  std::int64_t most) {
  const json* value = find(key);
  if (!value) return {};
  const std::string range = fmt::format("must be a whole number from {} to {}", least, most);
  if (!value->is_number_integer()) refuse(key, range);
  if (value->is_number_unsigned() &&
      value->get<std::uint64_t>() > static_cast<std::uint64_t>(std::max<std::int64_t>(0, most)))
    refuse(key, range);
  const auto out = value->get<std::int64_t>();
  if (out < least || out > most) refuse(key, range);
  return out;
}

std::optional<double> ObjectReader::number(const std::string& key, double least, double most) {
  const json* value = find(key);
  if (!value) return {};
  const std::string range = fmt::format("must be a number from {} to {}", least, most);
  if (!value->is_number()) refuse(key, range);
  const auto out = value->get<double>();
  if (!std::isfinite(out) || out < least || out > most) refuse(key, range);
  return out;
}

std::optional<std::string> ObjectReader::text(const std::string& key) {
  const json* value = find(key);
  if (!value) return {};
  if (!value->is_string()) refuse(key, "must be a string");
  return value->get<std::string>();
}

void ObjectReader::ignore(std::initializer_list<const char*> keys) {
  for (const char* key : keys) known_.insert(key);
}

void ObjectReader::finish() const {
  for (const auto& [key, value] : object_.items())
    if (!known_.contains(key)) refuse(key, "is unknown here");
}

}  // namespace penstock::serve
