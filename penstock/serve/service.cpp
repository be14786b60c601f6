#include "penstock/serve/service.h"

#include <future>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/failure_text.h"
#include "penstock/serve/request_error.h"

namespace penstock::serve {
namespace {

RequestError stops() { return RequestError(503, "the server stops"); }

}  // namespace

ServiceState& ServiceState::operator+=(const ServiceState& other) {
  running += other.running;
  waiting += other.waiting;
  kept_tokens += other.kept_tokens;
  counts.steps += other.counts.steps;
  counts.prompt_tokens += other.counts.prompt_tokens;
  counts.reused_tokens += other.counts.reused_tokens;
  counts.written_tokens += other.counts.written_tokens;
  return *this;
}

Service::Service(std::shared_ptr<LanguageModel> model, std::shared_ptr<const Tokenizer> tokenizer,
                 const ServiceOptions& options)
    : model_(std::move(model)),
      tokenizer_(std::move(tokenizer)),
      queue_(options.queue),
      batcher_(model_, *tokenizer_, options.batcher) {
  capacity_ = batcher_.capacity();
  thread_ = std::thread([this] { run(); });
}

Service::~Service() { stop(std::chrono::milliseconds(0)); }

void Service::post(std::function<void()> command) {
  {
    const std::scoped_lock lock(mutex_);
    if (ended_) return;
    commands_.push_back(std::move(command));
  }
  work_added_.notify_one();
}

void Service::call(const std::function<void()>& command) {
  auto task = std::make_shared<std::packaged_task<void()>>(command);
  std::future<void> done = task->get_future();
  post([task = std::move(task)] { (*task)(); });
  try {
    done.get();
  } catch (const std::future_error&) {  // the thread ended before it ran the command
    throw stops();
  }
}

void Service::run() {
  for (;;) {
    std::vector<std::function<void()>> commands;
    {
      std::unique_lock lock(mutex_);
      work_added_.wait(lock, [&] { return ended_ || !commands_.empty() || !batcher_.idle(); });
      if (ended_) break;
      commands.swap(commands_);
    }
    for (const auto& command : commands) command();
    try {
      batcher_.step();
    } catch (const std::exception& error) {
      batcher_.fail_all(failure_text(error));
    }
  }
  batcher_.cancel_all();
  const std::scoped_lock lock(mutex_);
  commands_.clear();
}

void Service::cancel(const Ids& ids) {
  post([this, ids] {
    for (const Batcher::Id id : *ids) batcher_.cancel(id);
  });
}

void Service::add_texts(std::vector<TextOrder>& orders, const std::shared_ptr<Answer>& answer,
                        const Ids& ids) {
  if (stopping_) throw stops();
  if (batcher_.waiting() + std::ssize(orders) > queue_)
    throw RequestError(429, "too many requests wait; try again later");
  try {
    for (std::size_t i = 0; i < orders.size(); ++i) {
      TextOrder& order = orders[i];
      order.prompt_scores = [answer, i](const std::vector<TokenScore>& scores) {
        answer->add({.text = i, .prompt_scores = scores});
      };
      order.token = [this, answer, ids, i](const GeneratedToken& token) {
        if (!answer->add({.text = i, .token = token})) cancel(ids);
      };
      order.done = [answer, i](const Completion& completion, const std::string& rest) {
        answer->add({.text = i, .finish = completion.finish, .rest = rest});
      };
      order.failed = [answer, i](const std::string& why) {
        answer->add({.text = i, .failure = why});
      };
      ids->push_back(batcher_.add(std::move(order)));
    }
  } catch (const Error& error) {
    for (const Batcher::Id id : *ids) batcher_.cancel(id);
    throw RequestError(400, error.what());
  }
}

std::unique_ptr<Ticket> Service::submit(std::vector<TextOrder> orders, std::size_t untaken_bytes) {
  auto answer = std::make_shared<Answer>(orders.size(), untaken_bytes);
  auto ids = std::make_shared<std::vector<Batcher::Id>>();
  call([&] { add_texts(orders, answer, ids); });
  return std::make_unique<Ticket>(answer, [this, ids] { cancel(ids); });
}

void Service::with_model(const std::function<void(LanguageModel&)>& use) {
  call([&] {
    if (stopping_) throw stops();
    use(*model_);
  });
}

ServiceState Service::state() {
  ServiceState out;
  call([&] {
    out = {.running = batcher_.running(),
           .waiting = batcher_.waiting(),
           .kept_tokens = batcher_.kept_tokens(),
           .counts = batcher_.counts()};
  });
  return out;
}

void Service::stop(std::chrono::milliseconds patience) {
  close();
  const auto end = std::chrono::steady_clock::now() + patience;
  const auto working = [&] {
    const ServiceState now = state();
    return now.running + now.waiting > 0;
  };
  try {
    while (std::chrono::steady_clock::now() < end && working())
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } catch (const RequestError&) {  // the model's thread has ended already
  }
  {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
  }
  work_added_.notify_one();
  if (thread_.joinable()) thread_.join();
}

}  // namespace penstock::serve
