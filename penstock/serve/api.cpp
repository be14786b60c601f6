#include "penstock/serve/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <limits>
#include <random>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/joined.h"
#include "penstock/base/json_text.h"
#include "penstock/serve/page.h"
#include "penstock/serve/request_error.h"
#include "penstock/serve/routing_answer.h"
#include "penstock/serve/text_stream_reply.h"
#include "penstock/serve/token_answers.h"

namespace penstock::serve {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Whether the two texts are equal. The time taken does not depend on where they differ.
bool same_secret(const std::string& a, const std::string& b) {
  unsigned difference = a.size() != b.size();
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^
                  static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  return difference == 0;
}

std::string_view without_port(std::string_view host) {
  const std::size_t colon = host.rfind(':');
  return colon == std::string_view::npos || host.ends_with(']') ? host : host.substr(0, colon);
}

/// Whether a Content-Type is JSON, with or without parameters.
bool is_json(std::string_view type) {
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ') || type.ends_with('\t')) type.remove_suffix(1);
  return same_word(type, "application/json");
}

/// Whether an Authorization header has that key. The case of the word before the key is ignored.
bool has_key(const std::string& authorization, const std::string& key) {
  constexpr std::string_view kScheme = "Bearer ";
  return same_word(authorization.substr(0, kScheme.size()), kScheme) &&
         same_secret(authorization.substr(kScheme.size()), key);
}

std::string new_id(const char* prefix) {
  static std::atomic<std::uint64_t> count = 0;
  return fmt::format("{}-{:x}-{}", prefix, unix_seconds(), ++count);
}

std::uint64_t random_seed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

/// The path of one model is this and the model's name.
constexpr std::string_view kModelPath = "/v1/models/";

bool is_model_path(std::string_view path) {
  return path.starts_with(kModelPath) && path.size() > kModelPath.size();
}

/// A part of a path with its %XX as bytes.
std::string decoded(std::string_view part) {
  std::string out;
  for (std::size_t i = 0; i < part.size(); ++i) {
    unsigned byte = 0;
    const char* const digits = part.data() + i + 1;
    const bool escape = part[i] == '%' && i + 2 < part.size() &&
                        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
    out += escape ? static_cast<char>(byte) : part[i];
    if (escape) i += 2;
  }
  return out;
}

/// The HTTP method of each path.
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kPaths = {
    {{"/", "GET"},
     {"/health", "GET"},
     {"/metrics", "GET"},
     {"/v1/models", "GET"},
     {"/v1/completions", "POST"},
     {"/v1/chat/completions", "POST"},
     {"/v1/routing", "POST"},
     {"/tokenize", "POST"},
     {"/detokenize", "POST"}}};

Reply another_method(const std::string& path, std::string_view allowed) {
  const std::string methods = allowed == "GET" ? "GET, HEAD" : std::string(allowed);
  return {.status = 405,
          .body = error_body(405, fmt::format("{} is asked by {}", path, allowed)),
          .headers = {{"Allow", methods}}};
}

/// The limits of requests to these models. A request for more texts than may wait would be refused
/// however idle its model is.
RequestLimits limits_of(RequestLimits limits, const std::vector<ServedModel>& models) {
  for (const ServedModel& model : models)
    limits.texts = std::min(limits.texts, model.service->queue());
  return limits;
}

/// Starts the request's texts.
std::unique_ptr<Ticket> submitted(const ServedModel& model, const TextRequest& request,
                                  std::size_t unread_bytes, ReplyHead& head, std::size_t& texts) {
  // The error names the prompt for any mistake in its tokens.
  const char* const key = request.chat ? "messages" : "prompt";
  try {
    std::vector<TextOrder> orders = text_orders(model, request, head);
    texts = orders.size();
    return model.service->submit(std::move(orders), unread_bytes);
  } catch (const RequestError& error) {
    if (error.status() != 400 || !error.parameter().empty()) throw;
    throw RequestError(400, error.message(), key);
  } catch (const Error& error) {
    throw RequestError(400, error.what(), key);
  }
}

}  // namespace

Api::Api(std::vector<ServedModel> models, ApiOptions options)
    : models_(std::move(models)),
      options_(std::move(options)),
      routing_room_(options_.routing_numbers),
      started_(unix_seconds()) {
  options_.limits = limits_of(options_.limits, models_);
}

std::string_view Api::method_of(const std::string& path) const {
  if (options_.endpoints.contains(path) || is_model_path(path)) return "GET";
  const auto* const found = std::ranges::find(kPaths, path, &decltype(kPaths)::value_type::first);
  return found == kPaths.end() ? std::string_view() : found->second;
}

std::string Api::unknown_path(const std::string& path) const {
  std::string known = std::string(kModelPath) + "NAME";
  for (const auto& [one, method] : kPaths) known += fmt::format(", {}", one);
  for (const auto& [one, reply] : options_.endpoints) known += ", " + one;
  return fmt::format("there is nothing at {}; the paths are {}", path, known);
}

std::string Api::counted_path(const std::string& path) const {
  if (is_model_path(path)) return std::string(kModelPath) + "NAME";
  return method_of(path).empty() ? "other" : path;
}

Reply Api::answer(const ApiRequest& request) {
  Reply reply;
  try {
    reply = routed(request);
  } catch (const RequestError& error) {
    reply = {.status = error.status(), .body = error_body(error)};
    if (reply.status == 401) reply.headers = {{"WWW-Authenticate", "Bearer"}};
  } catch (const Error& error) {
    reply = {.status = 400, .body = error_body(400, error.what())};
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    reply = {.status = 500, .body = error_body(500, error.what())};
  }
  // An answer that is not sent as it comes has its status only at its end. It is counted then.
  if (!reply.stream || reply.as_it_comes)
    metrics_.answered(counted_path(request.path), reply.status);
  return reply;
}

void Api::check_caller(const ApiRequest& request) const {
  const auto& hosts = options_.hosts;
  const auto asked = [&](const std::string& name) {
    return same_word(name, without_port(request.host));
  };
  if (!hosts.empty() && std::ranges::none_of(hosts, asked))
    throw RequestError(403, "the server is not asked by this name: '" + request.host + "'");
  if (request.path == "/" || request.path == "/health" || options_.api_key.empty()) return;
  if (!has_key(request.authorization, options_.api_key))
    throw RequestError(401, "the key is missing or wrong: send 'Authorization: Bearer KEY'");
}

const ServedModel& Api::named(const std::string& model) const {
  if (model.empty() && !models_.empty()) return models_.front();
  const auto found = std::ranges::find(models_, model, &ServedModel::name);
  if (found != models_.end()) return *found;
  const std::string names =
      joined(models_, ", ", [](const ServedModel& one) { return "'" + one.name + "'"; });
  throw RequestError(
      404,
      fmt::format("there is no model '{}', only {}", model, names.empty() ? "a report" : names),
      "model");
}

Reply Api::routed(const ApiRequest& request) {
  check_caller(request);
  const auto& [method, path, body, authorization, content_type, host] = request;
  if (method_of(path).empty()) throw RequestError(404, unknown_path(path));
  if (method != method_of(path)) return another_method(path, method_of(path));
  // A page of another site can make a browser send other content types without a preflight.
  if (method == "POST" && !is_json(content_type))
    throw RequestError(415, "the body must be of the type application/json");
  if (const auto endpoint = options_.endpoints.find(path); endpoint != options_.endpoints.end())
    return endpoint->second();
  if (path == "/") return {.type = "text/html; charset=utf-8", .body = std::string(page)};
  if (path == "/health") return health();
  if (path == "/metrics")
    return {.type = "text/plain; version=0.0.4", .body = metrics_.text(state())};
  if (path == "/v1/models") return models();
  if (is_model_path(path)) {
    const ServedModel& model = named(decoded(std::string_view(path).substr(kModelPath.size())));
    return {.body = json_text(model_json(model, started_))};
  }
  return posted(path, body);
}

Reply Api::posted(const std::string& path, const std::string& body) {
  const RequestLimits& limits = options_.limits;
  const auto deadline = Clock::now() + options_.timeout;
  if (path == "/v1/routing") {
    const RoutingRequest asked = parse_routing(body, limits);
    return routing_answer(named(asked.model), asked, options_.routing_tokens, routing_room_,
                          deadline);
  }
  if (path == "/tokenize") {
    const TokenizeRequest asked = parse_tokenize(body, limits);
    return tokenize_answer(named(asked.model), asked, deadline);
  }
  if (path == "/detokenize") {
    const DetokenizeRequest asked = parse_detokenize(body, limits);
    return {.body = detokenize_answer(named(asked.model), asked, limits.text_bytes)};
  }
  return texts(path == "/v1/completions" ? parse_completion(body, limits)
                                         : parse_chat(body, limits));
}

Reply Api::texts(TextRequest request) {
  const auto begun = Clock::now();
  const ServedModel& model = named(request.model);
  check_choice(model, request.choice);
  if (!request.seed) request.sampling.seed = random_seed();
  ReplyHead head{.id = new_id(request.chat ? "chatcmpl" : "cmpl"),
                 .model = model.name,
                 .created = unix_seconds(),
                 .chat = request.chat,
                 .include_usage = request.include_usage,
                 .likeliest = request.likeliest,
                 .routing = request.routing};
  const TextReply::Form form{.path = request.chat ? "/v1/chat/completions" : "/v1/completions",
                             .stream = request.stream,
                             .begun = begun,
                             .deadline = begun + options_.timeout,
                             .reading_end = begun + options_.timeout + options_.reading_time};
  std::size_t texts = 0;
  // The parts of a whole answer are taken as they come.
  const std::size_t unread =
      request.stream ? options_.unread_bytes : std::numeric_limits<std::size_t>::max();
  std::unique_ptr<Ticket> ticket = submitted(model, request, unread, head, texts);
  auto reply = std::make_unique<TextReply>(
      std::move(ticket), ReplyWriter(head, texts, model.service->tokenizer()), form, metrics_);
  return {.type = request.stream ? "text/event-stream" : "application/json",
          .stream = std::move(reply),
          .as_it_comes = request.stream};
}

Reply Api::models() const {
  Json list = Json::array();
  for (const ServedModel& model : models_) list.push_back(model_json(model, started_));
  Json out{{"object", "list"}, {"data", std::move(list)}};
  // Penstock's own key: the paths beyond OpenAI's and those that every server has.
  out["endpoints"] = Json::array();
  for (const auto& [path, reply] : options_.endpoints) out["endpoints"].push_back(path);
  if (!models_.empty())
    for (const char* const path : {"/tokenize", "/detokenize"}) out["endpoints"].push_back(path);
  return {.body = json_text(out)};
}

ServiceState Api::state() {
  ServiceState out;
  for (const ServedModel& model : models_) out += model.service->state();
  return out;
}

Reply Api::health() {
  const ServiceState now = state();
  const bool closed = std::ranges::any_of(
      models_, [](const ServedModel& model) { return model.service->closed(); });
  return {.status = closed ? 503 : 200,
          .body = json_text(Json{{"status", closed ? "stopping" : "ok"},
                                 {"running", now.running},
                                 {"waiting", now.waiting}})};
}

}  // namespace penstock::serve
