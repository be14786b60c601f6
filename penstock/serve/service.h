// The thread that owns a model while it is served. Requests of other threads become texts of its
// batcher, or forward passes between the batcher's steps. This file has no HTTP.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "penstock/infer/batcher.h"
#include "penstock/serve/answer.h"

namespace penstock::serve {

struct ServiceOptions {
  BatcherOptions batcher;
  std::int64_t queue = 64;  ///< largest number of waiting texts
};

struct ServiceState {
  std::int64_t running = 0, waiting = 0, kept_tokens = 0;
  BatcherCounts counts;
  ServiceState& operator+=(const ServiceState& other);
};

/// A request's texts in progress. The destructor cancels them.
class Ticket {
 public:
  Ticket(std::shared_ptr<Answer> answer, std::function<void()> cancel)
      : answer_(std::move(answer)), cancel_(std::move(cancel)) {}
  ~Ticket() { cancel_(); }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;
  Answer& answer() { return *answer_; }
  void cancel() { cancel_(); }

 private:
  std::shared_ptr<Answer> answer_;
  std::function<void()> cancel_;
};

class Service {
 public:
  /// Throws Error for a router that is not causal.
  Service(std::shared_ptr<LanguageModel> model, std::shared_ptr<const Tokenizer> tokenizer,
          const ServiceOptions& options);
  /// Calls stop() with a patience of 0.
  ~Service();

  /// Starts all of the request's texts, or none. Replaces the callbacks in the orders.
  /// @param untaken_bytes  limit of the events that the answer keeps. The texts are interrupted
  ///   once it is passed, so that a client that reads slowly does not take the memory.
  /// Throws RequestError: 429 if too many texts wait, 503 if the service stops, 400 for an invalid
  /// order.
  std::unique_ptr<Ticket> submit(std::vector<TextOrder> orders, std::size_t untaken_bytes);
  /// Calls `use` with the model between two steps, and waits for it. Throws the exceptions of
  /// `use`, and RequestError 503 if the service stops.
  void with_model(const std::function<void(LanguageModel&)>& use);
  ServiceState state();
  /// Refuses new requests. Running texts continue.
  void close() { stopping_ = true; }
  /// Whether new requests are refused.
  bool closed() const { return stopping_; }
  /// Calls close(). Running texts continue for up to `patience`; then they are interrupted.
  void stop(std::chrono::milliseconds patience);

  /// The largest number of waiting texts, which is also the largest number of a request.
  std::int64_t queue() const { return queue_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const ModelConfig& config() const { return model_->config(); }
  /// As Batcher::capacity().
  std::int64_t capacity() const { return capacity_; }

 private:
  void run();
  /// Makes the model's thread run `command` before its next step.
  void post(std::function<void()> command);
  /// Posts `command` and waits for it. Throws its exceptions.
  void call(const std::function<void()>& command);
  using Ids = std::shared_ptr<std::vector<Batcher::Id>>;
  void add_texts(std::vector<TextOrder>& orders, const std::shared_ptr<Answer>& answer,
                 const Ids& ids);
  /// Interrupts these texts before the next step.
  void cancel(const Ids& ids);

  std::shared_ptr<LanguageModel> model_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::int64_t queue_, capacity_;
  Batcher batcher_;  // only `thread_` uses it after it has started
  std::mutex mutex_;
  std::condition_variable work_added_;
  std::vector<std::function<void()>> commands_;
  std::atomic<bool> stopping_ = false;  // no new request is accepted
  bool ended_ = false;                  // the thread must end, or has ended
  std::thread thread_;                  // last: it uses the other members
};

}  // namespace penstock::serve
