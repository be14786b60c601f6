#include "penstock/serve/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <utility>

#include "penstock/analysis/routing_trace.h"
#include "penstock/base/error.h"
#include "penstock/serve/page.h"
#include "penstock/serve/request_error.h"
#include "penstock/serve/text_stream_reply.h"

namespace penstock::serve {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kTokensWithoutLimit = 4096;  // of a chat with a model that has no context

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Whether they are equal, in a time that says nothing of where they differ.
bool same_secret(const std::string& a, const std::string& b) {
  unsigned difference = a.size() != b.size();
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^
                  static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  return difference == 0;
}

std::string without_port(const std::string& host) {
  const std::size_t colon = host.rfind(':');
  return colon == std::string::npos || host.ends_with(']') ? host : host.substr(0, colon);
}

std::string new_id(const char* prefix) {
  static std::atomic<std::uint64_t> count = 0;
  return fmt::format("{}-{:x}-{}", prefix, unix_seconds(), ++count);
}

std::uint64_t random_seed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

/// Paths that are counted by name.
std::string known_path(const std::string& path) {
  for (const char* known : {"/", "/health", "/metrics", "/v1/models", "/v1/completions",
                            "/v1/chat/completions", "/v1/routing"})
    if (path == known) return path;
  return "other";
}

}  // namespace

Api::Api(Service& service, ApiOptions options)
    : service_(service), options_(std::move(options)), started_(unix_seconds()) {}

Reply Api::answer(const ApiRequest& request) {
  Reply reply;
  try {
    reply = routed(request);
  } catch (const RequestError& error) {
    reply = {.status = error.status(), .body = error_body(error)};
  } catch (const Error& error) {
    reply = {.status = 400, .body = error_body(400, error.what())};
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    reply = {.status = 500, .body = error_body(500, error.what())};
  }
  metrics_.answered(known_path(request.path), reply.status);
  return reply;
}

void Api::check_caller(const ApiRequest& request) const {
  const auto& hosts = options_.hosts;
  if (!hosts.empty() && std::ranges::find(hosts, without_port(request.host)) == hosts.end())
    throw RequestError(403, "the server is not asked by this name: '" + request.host + "'");
  if (request.path == "/" || request.path == "/health" || options_.api_key.empty()) return;
  if (!same_secret(request.authorization, "Bearer " + options_.api_key))
    throw RequestError(401, "the key is missing or wrong: send 'Authorization: Bearer KEY'");
}

void Api::check_model(const std::string& name) const {
  if (!name.empty() && name != options_.model)
    throw RequestError(404, fmt::format("there is no model '{}', only '{}'", name, options_.model),
                       "model");
}

Reply Api::routed(const ApiRequest& request) {
  check_caller(request);
  const auto& [method, path, body, authorization, content_type, host] = request;
  if (known_path(path) == "other") throw RequestError(404, "there is nothing at " + path);
  const bool writes =
      path == "/v1/completions" || path == "/v1/chat/completions" || path == "/v1/routing";
  if (method != (writes ? "POST" : "GET"))
    throw RequestError(405, fmt::format("{} is asked by {}", path, writes ? "POST" : "GET"));
  // A page of another place can have a browser send other types without asking first.
  if (writes && !content_type.starts_with("application/json"))
    throw RequestError(415, "the body must be of the type application/json");
  if (path == "/") return {.type = "text/html; charset=utf-8", .body = std::string(page)};
  if (path == "/health") return health();
  if (path == "/metrics")
    return {.type = "text/plain; version=0.0.4", .body = metrics_.text(service_.state())};
  if (path == "/v1/models") return models();
  if (path == "/v1/routing") return routing(parse_routing(body, options_.limits));
  return texts(path == "/v1/completions" ? parse_completion(body, options_.limits)
                                         : parse_chat(body, options_.limits));
}

std::vector<std::vector<TokenId>> Api::prompts_of(const TextRequest& request) const {
  const Tokenizer& tokenizer = service_.tokenizer();
  if (request.chat) {
    if (!options_.chat_form) throw RequestError(400, options_.no_chat);
    return {chat_tokens(*options_.chat_form, request.messages, tokenizer)};
  }
  std::vector<std::vector<TokenId>> out;
  for (const Prompt& prompt : request.prompts) {
    const auto* text = std::get_if<std::string>(&prompt);
    out.push_back(text ? prompt_tokens(tokenizer, *text) : std::get<std::vector<TokenId>>(prompt));
  }
  return out;
}

TextOrder Api::order_of(const TextRequest& request, std::vector<TokenId> prompt,
                        bool begins_document) const {
  const std::int64_t room =
      service_.capacity() > 0
          ? std::max<std::int64_t>(1, service_.capacity() + 1 - std::ssize(prompt))
          : kTokensWithoutLimit;
  TextOrder order{.prompt = std::move(prompt),
                  .begins_document = begins_document,
                  .options = {.max_tokens = request.max_tokens.value_or(room),
                              .sampling = request.sampling,
                              .stop = request.stop},
                  .likeliest = request.likeliest,
                  .routing = request.routing};
  if (!request.chat) return order;
  const std::string_view end = answer_end(*options_.chat_form);
  const auto ids = service_.tokenizer().encode_with_controls(end);
  if (ids.size() == 1)
    order.ends = ids;
  else
    order.options.stop.emplace_back(end);
  return order;
}

std::vector<TextOrder> Api::orders_of(const TextRequest& request, ReplyHead& head) const {
  std::vector<TextOrder> out;
  const auto prompts = prompts_of(request);
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    head.prompt_tokens += std::ssize(prompts[p]);
    const auto* text = request.chat ? nullptr : std::get_if<std::string>(&request.prompts[p]);
    TextOrder order = order_of(request, prompts[p], request.chat || (text && text->empty()));
    for (order.sample = 0; order.sample < request.n; ++order.sample) out.push_back(order);
  }
  return out;
}

Reply Api::texts(TextRequest request) {
  const auto begun = Clock::now();
  check_model(request.model);
  if (!request.seed) request.sampling.seed = random_seed();
  ReplyHead head{.id = new_id(request.chat ? "chatcmpl" : "cmpl"),
                 .model = options_.model,
                 .created = unix_seconds(),
                 .chat = request.chat,
                 .likeliest = request.likeliest,
                 .routing = request.routing};
  std::vector<TextOrder> orders = orders_of(request, head);
  const std::size_t count = orders.size();
  auto reply = std::make_unique<TextReply>(service_.submit(std::move(orders)),
                                           ReplyWriter(head, count, service_.tokenizer()),
                                           TextReply::Form{.stream = request.stream,
                                                           .include_usage = request.include_usage,
                                                           .begun = begun,
                                                           .deadline = begun + options_.timeout},
                                           metrics_);
  if (!request.stream) reply->wait_for_first();
  return {.type = request.stream ? "text/event-stream" : "application/json",
          .stream = std::move(reply)};
}

Reply Api::routing(const RoutingRequest& request) {
  check_model(request.model);
  const Tokenizer& tokenizer = service_.tokenizer();
  const auto* text = std::get_if<std::string>(&request.input);
  const std::vector<TokenId> ids =
      text ? prompt_tokens(tokenizer, *text) : std::get<std::vector<TokenId>>(request.input);
  if (std::ssize(ids) > options_.routing_tokens)
    throw RequestError(400,
                       fmt::format("{} tokens are more than the {} that can be asked for at once",
                                   ids.size(), options_.routing_tokens),
                       "input");
  std::map<std::string, at::Tensor> trace;
  service_.with_model([&](LanguageModel& model) {
    trace = analysis::trace_routing(model, {ids.begin(), ids.end()});
  });
  Json out{{"object", "routing"}, {"model", options_.model}};
  out["tokens"] = Json::array();
  for (const TokenId id : ids)
    out["tokens"].push_back({{"id", id}, {"text", tokenizer.decode({&id, 1})}});
  out["layers"] = Json::array();
  for (std::int64_t layer = 0; layer < service_.config().layers; ++layer) {
    const auto found = trace.find(fmt::format("layers.{}.gates", layer));
    if (found == trace.end()) continue;
    const at::Tensor gates = found->second.to(at::kFloat).contiguous();  // [T, E]
    const float* gate = gates.data_ptr<float>();
    Json tokens = Json::array();
    for (std::size_t t = 0; t < ids.size(); ++t) {
      tokens.push_back(Json::array());
      for (std::int64_t e = 0; e < gates.size(1); ++e, ++gate)
        if (*gate != 0) tokens.back().push_back(Json::array({e, *gate}));
    }
    out["layers"].push_back({{"layer", layer}, {"experts", std::move(tokens)}});
  }
  return {.body = json_text(out)};
}

Reply Api::models() const {
  const ModelConfig& config = service_.config();
  Json model{{"id", options_.model}, {"object", "model"}, {"created", started_}};
  model["owned_by"] = "penstock";
  model["context"] = service_.capacity();
  model["layers_with_experts"] = config.moe_layers();
  model["experts"] = config.moe_layers() > 0 ? config.total_experts() : 0;
  model["chat"] = options_.chat_form
                      ? Json(words(ChatForm())[static_cast<std::size_t>(*options_.chat_form)])
                      : Json();
  return {.body = json_text({{"object", "list"}, {"data", Json::array({std::move(model)})}})};
}

Reply Api::health() {
  const ServiceState state = service_.state();
  return {.body = json_text(
              {{"status", "ok"}, {"running", state.running}, {"waiting", state.waiting}})};
}

}  // namespace penstock::serve
