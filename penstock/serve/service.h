// The thread that a model belongs to while it is served: requests of any thread become texts of its
// batcher, or passes between its steps. No HTTP here.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "penstock/infer/batcher.h"
#include "penstock/serve/answer.h"

namespace penstock::serve {

struct ServiceOptions {
  BatcherOptions batcher;
  std::int64_t queue = 64;  ///< texts that may wait for a place
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
  /// As stop() without patience.
  ~Service();

  /// All of the request's texts, or none. The orders' own listeners are replaced.
  /// Throws RequestError: 429 where too many texts wait, 503 where the service stops, 400 for an
  /// order that cannot be.
  std::unique_ptr<Ticket> submit(std::vector<TextOrder> orders);
  /// What `use` returns of the model, between two steps. Throws what it throws, and RequestError
  /// 503 where the service stops.
  void with_model(const std::function<void(LanguageModel&)>& use);
  ServiceState state();
  /// New requests are refused; texts go on for as long as `patience`, and then end as they are.
  void stop(std::chrono::milliseconds patience);

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const ModelConfig& config() const { return model_->config(); }
  /// Most tokens of a sequence; 0: any number.
  std::int64_t capacity() const { return capacity_; }

 private:
  void run();
  /// Has the thread do it before its next step.
  void post(std::function<void()> command);
  /// And waits for that. Throws what it throws.
  void call(const std::function<void()>& command);
  void add_texts(std::vector<TextOrder>& orders, const std::shared_ptr<Answer>& answer,
                 std::vector<Batcher::Id>& ids);

  std::shared_ptr<LanguageModel> model_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::int64_t queue_, capacity_;
  Batcher batcher_;  // of the thread alone, once that runs
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<std::function<void()>> commands_;
  std::atomic<bool> stopping_ = false;  // nothing new is taken
  bool ended_ = false;                  // the thread is to end, or has
  std::thread thread_;                  // last: it uses the others
};

}  // namespace penstock::serve
