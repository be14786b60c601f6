#include "penstock/dist/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <torch/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/dist/pieces.h"

namespace penstock::dist {
namespace {

using Numbers = std::vector<std::int64_t>;

/// The size in bytes from which an all_gather is faster through the files.
constexpr std::int64_t kLarge = 32 << 10;
/// Bytes of the header of each file: a number by which other ranks recognise the file.
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
    close();
  }
  static Segment make() {
    Segment out;
    out.file_ = ::memfd_create("penstock", MFD_CLOEXEC);
    if (out.file_ < 0) fail_as("a file in memory");
    return out;
  }
  /// Opens another process's segment.
  static Segment open(std::int64_t process, std::int64_t file) {
    Segment out;
    const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(file);
    // The process id may belong to an unrelated process with other files.
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
    const auto size = static_cast<std::size_t>(bytes);
    void* const begin =
        begin_ ? ::mremap(begin_, static_cast<std::size_t>(bytes_), size, MREMAP_MAYMOVE)
               : ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (begin == MAP_FAILED) fail_as("memory to share");
    begin_ = begin;
    bytes_ = bytes;
  }
  /// Gives the descriptor back. The memory stays, and map() can still map more of the file. grow()
  /// and open() in another process need the descriptor.
  void close() {
    if (file_ >= 0) ::close(std::exchange(file_, -1));
  }
  /// Has an effect only where the system's shmem_enabled is "advise".
  void prefer_large_pages() {
#ifdef MADV_HUGEPAGE
    ::madvise(begin_, static_cast<std::size_t>(bytes_), MADV_HUGEPAGE);
#endif
  }

 private:
  int file_ = -1;
  std::int64_t bytes_ = 0;
  void* begin_ = nullptr;
};

/// The numbers by which other ranks open a segment: process, file, and the number in its header.
constexpr std::size_t kNumbers = 3;

/// Makes a segment of that many bytes with a number in its header.
Numbers make_marked(Segment& segment, std::int64_t bytes) {
  const std::int64_t number = static_cast<std::int64_t>(std::random_device{}()) + 1;
  segment = Segment::make();
  segment.grow(bytes);
  std::memcpy(segment.begin(), &number, sizeof number);
  return {::getpid(), segment.file(), number};
}

/// Opens another rank's segment. False if it cannot be opened, or is another one than `made`.
/// @param made  [kNumbers], from make_marked(); zeros if the other rank could not make it
bool open_marked(Segment& segment, const std::int64_t* made, std::int64_t bytes) {
  if (made[0] == 0) return false;
  try {
    segment = Segment::open(made[0], made[1]);
    segment.map(bytes);
    segment.close();
  } catch (const std::system_error&) {
    return false;
  }
  return std::memcmp(segment.begin(), &made[2], sizeof made[2]) == 0;
}

/// Each rank has two files, which operations use alternately. A rank may overwrite a file after the
/// next operation, which shows that all ranks have read it.
using Segments = std::array<Segment, 2>;

class SharedMemory : public Transport {
 public:
  SharedMemory(std::shared_ptr<Transport> transport, int rank, std::vector<std::string> names)
      : transport_(std::move(transport)),
        rank_(rank),
        size_(static_cast<int>(names.size())),
        names_(std::move(names)) {}

  /// Whether every rank reads every other's files.
  bool connect() {
    bool opened = true;
    Numbers mine(2 * kNumbers, 0);
    try {
      mine.clear();
      for (Segment& segment : own_) {
        const Numbers made = make_marked(segment, kHead);
        mine.insert(mine.end(), made.begin(), made.end());
      }
    } catch (const std::system_error&) {
      opened = false;  // the others are still told
      mine.assign(2 * kNumbers, 0);
    }
    const auto all = exchanged(mine);
    others_.resize(static_cast<std::size_t>(size_));
    for (std::size_t rank = 0; rank < all.size() && opened; ++rank)
      for (std::size_t turn = 0; turn < 2 && opened; ++turn)
        if (rank != static_cast<std::size_t>(rank_))
          opened = open_marked(others_[rank][turn], &all[rank][turn * kNumbers], kHead);
    return all_say(opened);
  }

  std::function<void()> start_all_to_all(std::vector<Pieces> received,
                                         std::vector<Pieces> sent) override {
    const auto me = static_cast<std::size_t>(rank_);
    Segment& segment = own_[turn_];
    std::int64_t all = kHead;
    for (std::size_t rank = 0; rank < sent.size(); ++rank)
      if (rank != me) all += total_bytes(sent[rank]);
    segment.grow(all);
    Numbers said;  // to each rank: where its bytes are, how many, and how many the file has
    std::byte* place = segment.begin() + kHead;
    for (std::size_t rank = 0; rank < sent.size(); ++rank) {
      said.insert(said.end(), {place - segment.begin(), total_bytes(sent[rank]), segment.bytes()});
      if (rank != me) place = join(sent[rank], place);
    }
    const at::Tensor mine = at::tensor(said, at::kLong), theirs = at::empty_like(mine);
    const auto told = transport_->start_all_to_all(by_rank(theirs), by_rank(mine));
    return [this, received, own = sent[me], theirs, told] {
      told();
      const std::int64_t* said_by = theirs.data_ptr<std::int64_t>();
      for (std::size_t rank = 0; rank < received.size(); ++rank, said_by += 3) {
        check_size(rank, said_by[1], received[rank]);
        if (rank == static_cast<std::size_t>(rank_))
          copy(own, received[rank]);
        else if (said_by[1] > 0)
          divide(mapped(rank, said_by[2]) + said_by[0], received[rank]);
      }
      turn_ = 1 - turn_;
    };
  }
  void all_gather(std::vector<Pieces> received, Pieces sent) override {
    std::int64_t most = 0;
    for (const Pieces& of_rank : received) most = std::max(most, total_bytes(of_rank));
    if (most < kLarge) return transport_->all_gather(std::move(received), std::move(sent));
    Segment& segment = own_[turn_];
    segment.grow(kHead + total_bytes(sent));
    join(sent, segment.begin() + kHead);
    const auto theirs = exchanged({total_bytes(sent), segment.bytes()});
    for (std::size_t rank = 0; rank < received.size(); ++rank) {
      check_size(rank, theirs[rank][0], received[rank]);
      if (rank == static_cast<std::size_t>(rank_))
        copy(sent, received[rank]);
      else if (theirs[rank][0] > 0)
        divide(mapped(rank, theirs[rank][1]) + kHead, received[rank]);
    }
    turn_ = 1 - turn_;
  }
  at::Tensor shared_bytes(std::int64_t bytes) override {
    const auto memory = std::make_shared<Segment>();
    Numbers mine(kNumbers, 0);
    try {
      if (rank_ == 0) mine = make_marked(*memory, kHead + bytes);
    } catch (const std::system_error&) {
      // the others are told by the zeros
    }
    mine.push_back(bytes);
    const auto all = exchanged(mine);
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      PENSTOCK_CHECK(all[rank].back() == bytes, names_[rank], " shares ", all[rank].back(),
                     " bytes, ", own_name(), " shares ", bytes, " bytes");
    const std::int64_t* const made = all.front().data();
    const bool has = rank_ == 0 ? made[0] > 0 : open_marked(*memory, made, kHead + bytes);
    if (!all_say(has)) return {};
    memory->close();
    memory->prefer_large_pages();
    return at::from_blob(
        memory->begin() + kHead, {bytes}, [memory](void*) {}, at::kByte);
  }
  std::function<void()> start_send(at::Tensor values, int to) override {
    return transport_->start_send(std::move(values), to);
  }
  void receive(at::Tensor values, int from) override {
    transport_->receive(std::move(values), from);
  }

 private:
  /// Three numbers for each rank.
  static std::vector<Pieces> by_rank(const at::Tensor& numbers) {
    std::vector<Pieces> out;
    for (const at::Tensor& three : numbers.split(3)) out.push_back({three.view(at::kByte)});
    return out;
  }

  /// Bytes after another rank's data are never read.
  void check_size(std::size_t rank, std::int64_t bytes, const Pieces& received) const {
    PENSTOCK_CHECK(bytes == total_bytes(received), names_[rank], " has ", bytes, " bytes for ",
                   own_name(), ", which expects ", total_bytes(received));
  }
  const std::string& own_name() const { return names_[static_cast<std::size_t>(rank_)]; }

  /// As many numbers of every rank; by then all have made their last operation.
  std::vector<Numbers> exchanged(const Numbers& mine) {
    const auto count = static_cast<std::int64_t>(mine.size());
    const at::Tensor sent = at::tensor(mine, at::kLong);
    const at::Tensor all = at::empty({size_, count}, at::kLong);
    std::vector<Pieces> received;
    for (int rank = 0; rank < size_; ++rank) received.push_back({all[rank].view(at::kByte)});
    transport_->all_gather(received, {sent.view(at::kByte)});
    std::vector<Numbers> out;
    for (const at::Tensor& theirs : all.unbind())
      out.emplace_back(theirs.data_ptr<std::int64_t>(), theirs.data_ptr<std::int64_t>() + count);
    return out;
  }

  /// Whether all ranks say yes. Every rank calls it.
  bool all_say(bool yes) {
    for (const Numbers& theirs : exchanged({yes ? 1 : 0}))
      if (theirs[0] == 0) return false;
    return true;
  }

  std::byte* mapped(std::size_t rank, std::int64_t bytes) {
    Segment& segment = others_[rank][turn_];
    segment.map(bytes);
    return segment.begin();
  }

  std::shared_ptr<Transport> transport_;
  int rank_, size_;
  std::vector<std::string> names_;  // by rank
  Segments own_;
  std::vector<Segments> others_;  // by rank
  std::size_t turn_ = 0;
};

}  // namespace

std::shared_ptr<Transport> with_shared_memory(std::shared_ptr<Transport> transport, int rank,
                                              std::vector<std::string> names) {
  auto out = std::make_shared<SharedMemory>(transport, rank, std::move(names));
  if (out->connect()) return out;
  return transport;
}

}  // namespace penstock::dist
