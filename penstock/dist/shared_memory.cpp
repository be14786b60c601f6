#include "penstock/dist/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <torch/types.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <system_error>
#include <utility>

namespace penstock::dist {
namespace {

using Numbers = std::vector<std::int64_t>;

/// Bytes of an all_gather from which on the files are worth their way.
constexpr std::size_t kLarge = 32 << 10;
/// At the beginning of each file: a number by which others know that it is the right one.
constexpr std::int64_t kHead = 64;

[[noreturn]] void fail_as(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

/// A file in memory, mapped as far as it is needed.
class Segment {
 public:
  Segment() = default;
  Segment(Segment&& other) noexcept { *this = std::move(other); }
  Segment& operator=(Segment&& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(bytes_, other.bytes_);
    std::swap(begin_, other.begin_);
    return *this;
  }
  ~Segment() {
    if (begin_) ::munmap(begin_, static_cast<std::size_t>(bytes_));
    if (file_ >= 0) ::close(file_);
  }
  static Segment make() {
    Segment out;
    out.file_ = ::memfd_create("penstock", MFD_CLOEXEC);
    if (out.file_ < 0) fail_as("a file in memory");
    return out;
  }
  /// That of another process.
  static Segment open(std::int64_t process, std::int64_t file) {
    Segment out;
    const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(file);
    // The process of that number may be another one, with other files.
    std::array<char, 64> target{};
    if (::readlink(path.c_str(), target.data(), target.size() - 1) < 0) fail_as("its files");
    errno = ENOENT;
    if (std::string(target.data()).rfind("/memfd:penstock", 0) != 0) fail_as("its files");
    out.file_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (out.file_ < 0) fail_as("another process's memory");
    return out;
  }

  int file() const { return file_; }
  std::int64_t bytes() const { return bytes_; }
  std::byte* begin() const { return static_cast<std::byte*>(begin_); }
  void grow(std::int64_t bytes) {
    if (bytes <= bytes_) return;
    if (::ftruncate(file_, bytes) != 0) fail_as("memory to share");
    map(bytes);
  }
  void map(std::int64_t bytes) {
    if (bytes <= bytes_) return;
    void* const begin = ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                               MAP_SHARED, file_, 0);
    if (begin == MAP_FAILED) fail_as("memory to share");
    if (begin_) ::munmap(begin_, static_cast<std::size_t>(bytes_));
    begin_ = begin;
    bytes_ = bytes;
  }

 private:
  int file_ = -1;
  std::int64_t bytes_ = 0;
  void* begin_ = nullptr;
};

/// Two files of each rank, which operations use in turn: who writes the next but one knows from the
/// next that all have read this one.
using Segments = std::array<Segment, 2>;

class SharedMemory : public Transport {
 public:
  SharedMemory(std::shared_ptr<Transport> carrier, int rank, int size)
      : carrier_(std::move(carrier)), rank_(rank), size_(size) {}

  /// Whether every rank reads every other's files.
  bool connect() {
    std::int64_t opened = 1;
    const std::int64_t number = static_cast<std::int64_t>(std::random_device{}()) + 1;
    Numbers mine(4, 0);
    try {
      for (Segment& segment : own_) {
        segment = Segment::make();
        segment.grow(kHead);
        std::memcpy(segment.begin(), &number, sizeof number);
      }
      mine = {::getpid(), own_[0].file(), own_[1].file(), number};
    } catch (const std::system_error&) {
      opened = 0;  // the others are still told
    }
    const auto all = exchanged(mine);
    others_.resize(static_cast<std::size_t>(size_));
    for (int rank = 0; rank < size_ && opened; ++rank)
      if (rank != rank_) opened = open_files_of(rank, all[static_cast<std::size_t>(rank)]);
    for (const Numbers& theirs : exchanged({opened}))
      if (theirs[0] == 0) return false;
    return true;
  }

  void all_reduce(at::Tensor values, Reduction reduction) override {
    carrier_->all_reduce(std::move(values), reduction);
  }
  std::function<void()> start_all_to_all(at::Tensor received, at::Tensor sent,
                                         std::vector<std::int64_t> counts,
                                         std::vector<std::int64_t> send_counts) override {
    Segment& segment = own_[turn_];
    const auto all_sent = static_cast<std::int64_t>(sent.nbytes());
    segment.grow(kHead + all_sent);
    if (all_sent > 0) std::memcpy(segment.begin() + kHead, sent.data_ptr(), sent.nbytes());
    Numbers said;  // to each rank: where behind the head its bytes are, and how many the file has
    std::int64_t place = kHead;
    for (const std::int64_t bytes : send_counts) {
      said.insert(said.end(), {place, segment.bytes()});
      place += bytes;
    }
    const Numbers each(counts.size(), kSaid);
    const at::Tensor mine = at::tensor(said, at::kLong), theirs = at::empty_like(mine);
    const auto told = carrier_->start_all_to_all(bytes_of(theirs), bytes_of(mine), each, each);
    return [this, received, counts, theirs, told] {
      told();
      read(received, counts, theirs.data_ptr<std::int64_t>());
      turn_ = 1 - turn_;
    };
  }
  void all_gather(std::vector<at::Tensor> received, at::Tensor sent) override {
    if (sent.nbytes() < kLarge) return carrier_->all_gather(std::move(received), std::move(sent));
    Segment& segment = own_[turn_];
    segment.grow(kHead + static_cast<std::int64_t>(sent.nbytes()));
    std::memcpy(segment.begin() + kHead, sent.data_ptr(), sent.nbytes());
    const auto theirs = exchanged({segment.bytes()});
    for (std::size_t rank = 0; rank < received.size(); ++rank)
      std::memcpy(received[rank].data_ptr(),
                  static_cast<int>(rank) == rank_ ? static_cast<std::byte*>(sent.data_ptr())
                                                  : mapped(rank, theirs[rank][0]) + kHead,
                  sent.nbytes());
    turn_ = 1 - turn_;
  }
  void broadcast(at::Tensor values, int root) override {
    carrier_->broadcast(std::move(values), root);
  }
  std::function<void()> start_send(at::Tensor values, int to) override {
    return carrier_->start_send(std::move(values), to);
  }
  void receive(at::Tensor values, int from) override { carrier_->receive(std::move(values), from); }

 private:
  /// Bytes of what one rank tells another in an all_to_all.
  static constexpr std::int64_t kSaid = 2 * sizeof(std::int64_t);

  static at::Tensor bytes_of(const at::Tensor& numbers) { return numbers.view(at::kByte); }

  /// Copies what every rank has for this one.  @param said  by rank: the place, and the file's size
  void read(const at::Tensor& received, const Numbers& counts, const std::int64_t* said) {
    auto* to = static_cast<std::byte*>(received.data_ptr());
    for (std::size_t rank = 0; rank < counts.size(); ++rank, said += 2) {
      const auto bytes = static_cast<std::size_t>(counts[rank]);
      const bool own = rank == static_cast<std::size_t>(rank_);
      if (bytes > 0)
        std::memcpy(to, (own ? own_[turn_].begin() : mapped(rank, said[1])) + said[0], bytes);
      to += bytes;
    }
  }

  /// As many numbers of every rank; by then all have made their last operation.
  std::vector<Numbers> exchanged(const Numbers& mine) {
    const auto count = static_cast<std::int64_t>(mine.size());
    const at::Tensor sent = at::tensor(mine, at::kLong);
    std::vector<at::Tensor> received;
    for (int rank = 0; rank < size_; ++rank) received.push_back(at::empty({count}, at::kLong));
    carrier_->all_gather(received, sent);
    std::vector<Numbers> out;
    for (const at::Tensor& theirs : received)
      out.emplace_back(theirs.data_ptr<std::int64_t>(), theirs.data_ptr<std::int64_t>() + count);
    return out;
  }

  bool open_files_of(int rank, const Numbers& theirs) {
    if (theirs[0] == 0) return false;
    try {
      for (std::size_t turn = 0; turn < 2; ++turn) {
        Segment& segment = others_[static_cast<std::size_t>(rank)][turn];
        segment = Segment::open(theirs[0], theirs[turn + 1]);
        segment.map(kHead);
        if (std::memcmp(segment.begin(), &theirs[3], sizeof theirs[3]) != 0) return false;
      }
    } catch (const std::system_error&) {
      return false;
    }
    return true;
  }

  std::byte* mapped(std::size_t rank, std::int64_t bytes) {
    Segment& segment = others_[rank][turn_];
    segment.map(bytes);
    return segment.begin();
  }

  std::shared_ptr<Transport> carrier_;
  int rank_, size_;
  Segments own_;
  std::vector<Segments> others_;  // by rank
  std::size_t turn_ = 0;
};

}  // namespace

std::shared_ptr<Transport> with_shared_memory(std::shared_ptr<Transport> carrier, int rank,
                                              int size) {
  auto out = std::make_shared<SharedMemory>(carrier, rank, size);
  if (out->connect()) return out;
  return carrier;
}

}  // namespace penstock::dist
