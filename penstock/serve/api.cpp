#include "penstock/serve/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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

std::string_view without_port(std::string_view host) {
  const std::size_t colon = host.rfind(':');
  return colon == std::string_view::npos || host.ends_with(']') ? host : host.substr(0, colon);
}

/// Whether a Content-Type says JSON, with parameters or without.
bool is_json(std::string_view type) {
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ') || type.ends_with('\t')) type.remove_suffix(1);
  return same_word(type, "application/json");
}

/// Whether an Authorization header has that key; the word before it has no case.
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

/// How each path is asked.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kPaths = {
    {{"/", "GET"},
     {"/health", "GET"},
     {"/metrics", "GET"},
     {"/v1/models", "GET"},
     {"/v1/completions", "POST"},
     {"/v1/chat/completions", "POST"},
     {"/v1/routing", "POST"}}};

/// The method of that path; "" where there is nothing.
std::string_view method_of(std::string_view path) {
  const auto* const found = std::ranges::find(kPaths, path, &decltype(kPaths)::value_type::first);
  return found == kPaths.end() ? std::string_view() : found->second;
}

/// A path as it is counted.
std::string counted_path(const std::string& path) {
  return method_of(path).empty() ? "other" : path;
}

Reply another_method(const std::string& path) {
  const std::string allowed(method_of(path));
  return {.status = 405,
          .body = error_body(405, fmt::format("{} is asked by {}", path, allowed)),
          .headers = {{"Allow", allowed == "GET" ? "GET, HEAD" : allowed}}};
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
  // What is not sent as it comes has its status at its end, and is counted then.
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

void Api::check_model(const std::string& name) const {
  if (!name.empty() && name != options_.model)
    throw RequestError(404, fmt::format("there is no model '{}', only '{}'", name, options_.model),
                       "model");
}

Reply Api::routed(const ApiRequest& request) {
  check_caller(request);
  const auto& [method, path, body, authorization, content_type, host] = request;
  if (method_of(path).empty()) throw RequestError(404, "there is nothing at " + path);
  if (method != method_of(path)) return another_method(path);
  // A page of another place can have a browser send other types without asking first.
  if (method == "POST" && !is_json(content_type))
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
    if (!options_.chat_form) throw RequestError(400, options_.no_chat, "messages");
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

std::unique_ptr<Ticket> Api::submitted(const TextRequest& request, ReplyHead& head,
                                       std::size_t& texts) {
  // Whatever is wrong with tokens is wrong with the prompt.
  const char* const key = request.chat ? "messages" : "prompt";
  try {
    std::vector<TextOrder> orders = orders_of(request, head);
    texts = orders.size();
    return service_.submit(std::move(orders));
  } catch (const RequestError& error) {
    if (error.status() != 400 || !error.parameter().empty()) throw;
    throw RequestError(400, error.what(), key);
  } catch (const Error& error) {
    throw RequestError(400, error.what(), key);
  }
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
  const TextReply::Form form{.path = request.chat ? "/v1/chat/completions" : "/v1/completions",
                             .stream = request.stream,
                             .include_usage = request.include_usage,
                             .begun = begun,
                             .deadline = begun + options_.timeout};
  std::size_t texts = 0;
  std::unique_ptr<Ticket> ticket = submitted(request, head, texts);
  auto reply = std::make_unique<TextReply>(
      std::move(ticket), ReplyWriter(head, texts, service_.tokenizer()), form, metrics_);
  return {.type = request.stream ? "text/event-stream" : "application/json",
          .stream = std::move(reply),
          .as_it_comes = request.stream};
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
    try {
      trace = analysis::trace_routing(model, {ids.begin(), ids.end()});
    } catch (const Error& error) {
      throw RequestError(400, error.what(), "input");
    }
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
