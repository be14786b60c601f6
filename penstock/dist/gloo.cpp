// The transport over Gloo, through libtorch's c10d: TCP between all pairs of ranks. It is the only
// file that knows Gloo or c10d. Its sockets listen on one address, and anyone who can connect to
// that address can disturb a run: Gloo neither encrypts nor authenticates.
#include "penstock/base/error.h"
#include "penstock/base/loopback.h"
#include "penstock/dist/pieces.h"
#include "penstock/dist/transport.h"

#ifdef PENSTOCK_HAVE_GLOO

#include <ifaddrs.h>
#include <net/if.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <list>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace penstock::dist {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Keys = std::vector<std::string>;

/// Messages of one tag from one rank to another keep their order.
constexpr int kMessage = 0, kExchange = 1;

/// Makes the threads that this thread starts not preempt a computing thread when they wake up.
/// Otherwise Gloo's thread that reads sockets would preempt a sending thread that holds a lock, and
/// would then spin for that lock until its time slice ends. If the system does not allow it,
/// nothing changes.
void start_patient_threads() {
  const sched_param none{};
  if (::sched_getscheduler(0) == SCHED_OTHER) ::sched_setscheduler(0, SCHED_BATCH, &none);
}

/// The table of ranks as a c10d store.
class Table : public c10d::Store {
 public:
  Table(std::shared_ptr<KeyClient> client, std::chrono::milliseconds timeout,
        std::shared_ptr<GroupTable> world)
      : Store(timeout), client_(std::move(client)), world_(std::move(world)) {}

  using c10d::Store::set;
  void set(const std::string& key, const Bytes& value) override {
    client_->set(key, std::string(value.begin(), value.end()));
  }
  Bytes get(const std::string& key) override {
    const std::string value = wait_for(key, timeout_);
    return Bytes(value.begin(), value.end());
  }
  std::int64_t add(const std::string& key, std::int64_t value) override {
    return client_->add(key, value);
  }
  bool deleteKey(const std::string& key) override { return client_->remove(key); }
  bool check(const Keys& keys) override {
    for (const auto& key : keys)
      if (!client_->get(key)) return false;
    return true;
  }
  std::int64_t getNumKeys() override { return client_->size(); }
  void wait(const Keys& keys) override { wait(keys, timeout_); }
  void wait(const Keys& keys, const std::chrono::milliseconds& timeout) override {
    for (const auto& key : keys) wait_for(key, timeout);
  }

 private:
  std::string wait_for(const std::string& key, std::chrono::milliseconds timeout) {
    constexpr std::chrono::milliseconds kTurn{500};
    const auto end = std::chrono::steady_clock::now() + timeout;
    do {
      if (const auto value = client_->wait(key, std::min(kTurn, timeout))) return *value;
      world_->check();
    } while (std::chrono::steady_clock::now() < end);
    fail("no rank set ", key, " in time");
  }

  std::shared_ptr<KeyClient> client_;
  std::shared_ptr<GroupTable> world_;
};

/// The network interface that GLOO_SOCKET_IFNAME names, or the one on the route to rank 0. If rank
/// 0 is reached over the loopback, it is the loopback, since all ranks are then on this machine.
/// (By itself c10d would choose the address of the host's name, which on Debian is often the
/// loopback.)
std::shared_ptr<gloo::transport::Device> device_for(const KeyClient& table) {
  const char* named = std::getenv("GLOO_SOCKET_IFNAME");
  const std::string address = table.local_address();
  if (!named || !*named || is_loopback(address))
    return c10d::ProcessGroupGloo::createDeviceForHostname(address);
  PENSTOCK_CHECK(::if_nametoindex(named) != 0, "GLOO_SOCKET_IFNAME = ", named,
                 ": this machine has no such network interface; `ip address` lists them");
  return c10d::ProcessGroupGloo::createDeviceForInterface(named);
}

using Group = c10::intrusive_ptr<c10d::ProcessGroupGloo>;
using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;

/// The messages that threads of this rank wait for. If a connection ends, Gloo notifies neither a
/// thread that waits to send (Gloo leaves out its `tx_` queue) nor a thread that waits for a
/// message that has partly arrived.
class Waits {
 public:
  /// Throws at the first message that fails or is given up. Others may then still be under way.
  void wait(const Works& works) {
    const auto place = add(works);
    bool all = true;
    try {
      for (const auto& work : works) all = all && work->wait();
    } catch (...) {
      remove(place);
      throw;
    }
    remove(place);
    if (!all) throw std::runtime_error("a message was given up");
  }
  void give_up() {
    const std::scoped_lock lock(mutex_);
    for (const Works* works : waiting_)
      for (const auto& work : *works) give_up(*work);
  }

 private:
  using Place = std::list<const Works*>::iterator;
  /// Exceptions are ignored, because the other messages have to be given up too.
  static void give_up(c10d::Work& work) {
    try {
      work.abort();
    } catch (const std::exception&) {
    }
  }
  Place add(const Works& works) {
    const std::scoped_lock lock(mutex_);
    return waiting_.insert(waiting_.end(), &works);
  }
  void remove(Place place) {
    const std::scoped_lock lock(mutex_);
    waiting_.erase(place);
  }

  std::mutex mutex_;
  std::list<const Works*> waiting_;
};

/// The messages of one operation. If a message loses its buffer while its connection is open,
/// Gloo's thread tries without a pause to move its bytes. So the group's connections are closed
/// first if an operation ends before its messages: by a failure, or because nobody waits for it.
class Messages {
 public:
  explicit Messages(std::shared_ptr<Waits> waits) : waits_(std::move(waits)) {}
  ~Messages() {
    if (!done_) close_connections();
  }
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  void add(Works::value_type work) { works_.push_back(std::move(work)); }
  void wait() {
    waits_->wait(works_);
    done_ = true;
  }

 private:
  /// Gloo closes all connections of the group where a wait ends by its timeout. A wait for a
  /// message that has arrived or is given up returns once; the next one ends by the timeout.
  void close_connections() const {
    for (const auto& work : works_) try {
        while (true) work->wait(std::chrono::milliseconds(1));
      } catch (const std::exception&) {  // the timeout, or an earlier failure of this connection
      }
  }

  std::shared_ptr<Waits> waits_;
  Works works_;
  bool done_ = false;
};

/// Connects in a separate thread, which is abandoned if a rank is lost meanwhile: Gloo waits for
/// that rank's connection as long as for a late rank in an operation.
Group connected(std::function<Group()> connect, const std::shared_ptr<GroupTable>& world) {
  const auto made = std::make_shared<std::promise<Group>>();
  std::future<Group> out = made->get_future();
  std::thread([made, connect = std::move(connect), world] {
    start_patient_threads();
    try {
      Group group;
      // Gloo does not make the system watch its connections. Without that, a rank would wait for a
      // machine that vanishes.
      world->links().watch([&] { group = connect(); });
      made->set_value(std::move(group));
    } catch (...) {
      made->set_exception(std::current_exception());
    }
  }).detach();
  while (out.wait_for(std::chrono::milliseconds(200)) != std::future_status::ready) {
    if (!world->lost()) continue;
    world->end();  // the thread holds it
    world->check();
  }
  return out.get();
}

class Gloo : public Transport {
 public:
  Gloo(std::shared_ptr<KeyClient> table, int rank, int size, std::chrono::milliseconds timeout,
       const std::shared_ptr<GroupTable>& world) {
    const auto connect = [=] {
      const auto options = c10d::ProcessGroupGloo::Options::create(timeout);
      options->devices = {device_for(*table)};
      options->threads = 1;
      const auto store = c10::make_intrusive<Table>(table, timeout, world);
      return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
    };
    group_ = connected(connect, world);
    given_up_ = world->links().on_cut([waits = waits_] { waits->give_up(); });
  }

  /// Exchanges with all other ranks at once. Gloo's own all-to-all uses a link in one direction
  /// after the other: over 1 Gbit/s it takes nearly twice as long.
  std::function<void()> start_all_to_all(std::vector<Pieces> received,
                                         std::vector<Pieces> sent) override {
    const int rank = group_->getRank(), size = group_->getSize();
    const auto messages = std::make_shared<Messages>(waits_);
    std::vector<at::Tensor> arriving(received.size());
    for (int step = 1; step < size; ++step) {
      const int from = (rank + size - step) % size;
      const auto at = static_cast<std::size_t>(from);
      arriving[at] = received[at].size() == 1 ? received[at][0] : room_for(received[at]);
      std::vector<at::Tensor> tensors = {arriving[at]};
      if (tensors[0].numel() > 0) messages->add(group_->recv(tensors, from, kExchange));
    }
    for (int step = 1; step < size; ++step) {
      const int to = (rank + step) % size;
      std::vector<at::Tensor> tensors = {joined(sent[static_cast<std::size_t>(to)])};
      if (tensors[0].numel() > 0) messages->add(group_->send(tensors, to, kExchange));
    }
    const auto own = static_cast<std::size_t>(rank);
    copy(sent[own], received[own]);
    return [messages, arriving, received] {  // which hold the tensors
      messages->wait();
      for (std::size_t from = 0; from < received.size(); ++from)
        if (received[from].size() > 1 && arriving[from].defined())
          divide(begin_of(arriving[from]), received[from]);
    };
  }
  void all_gather(std::vector<Pieces> received, Pieces sent) override {
    const Pieces once = {joined(sent)};
    start_all_to_all(std::move(received),
                     std::vector<Pieces>(static_cast<std::size_t>(group_->getSize()), once))();
  }
  std::function<void()> start_send(at::Tensor values, int to) override {
    std::vector<at::Tensor> tensors = {std::move(values)};
    const auto sent = std::make_shared<Messages>(waits_);
    sent->add(group_->send(tensors, to, kMessage));  // which holds the tensor
    return [sent] { sent->wait(); };
  }
  void receive(at::Tensor values, int from) override {
    std::vector<at::Tensor> tensors = {std::move(values)};
    Messages received(waits_);
    received.add(group_->recv(tensors, from, kMessage));
    received.wait();
  }

 private:
  static at::Tensor room_for(const Pieces& pieces) {
    return at::empty({total_bytes(pieces)}, at::kByte);
  }
  static std::byte* begin_of(const at::Tensor& bytes) {
    return static_cast<std::byte*>(bytes.data_ptr());
  }
  /// A message is one tensor.
  static at::Tensor joined(const Pieces& pieces) {
    if (pieces.size() == 1) return pieces[0];
    at::Tensor out = room_for(pieces);
    join(pieces, begin_of(out));
    return out;
  }

  Group group_;
  std::shared_ptr<Waits> waits_ = std::make_shared<Waits>();
  std::shared_ptr<void> given_up_;
};

}  // namespace

bool has_transport() { return true; }

std::shared_ptr<Transport> make_transport(std::shared_ptr<KeyClient> table, int rank, int size,
                                          std::chrono::milliseconds timeout,
                                          const std::shared_ptr<GroupTable>& world) {
  return std::make_shared<Gloo>(std::move(table), rank, size, timeout, world);
}

}  // namespace penstock::dist

#else

namespace penstock::dist {

bool has_transport() { return false; }

std::shared_ptr<Transport> make_transport(std::shared_ptr<KeyClient>, int, int,
                                          std::chrono::milliseconds,
                                          const std::shared_ptr<GroupTable>&) {
  PENSTOCK_ASSERT(has_transport());
  return nullptr;
}

}  // namespace penstock::dist

#endif
