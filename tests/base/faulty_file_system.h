// A file system that fails as disks and power do. A real directory shows the files that programs
// see. Beside it, the file system keeps a model of the durable state: file contents as of the last
// sync, directory entries as of the directory's last sync. A crash rewrites the real directory to a
// state that the model allows; the disk can be full after any byte.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/base/file_system.h"
#include "penstock/base/random.h"

namespace penstock::testing {

/// Thrown when the machine stops. It is not an Error, so that nothing catches it and continues.
struct Crash {};

/// The part of unsynced work that a crash leaves.
enum class Unsynced { kLost, kKept, kTorn };

class FaultyFileSystem : public FileSystem {
 public:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  /// `root` exists, is empty and durable; only paths below it may be used.
  explicit FaultyFileSystem(Path root) : root_(std::move(root)) {
    nodes_.push_back({.directory = true});
  }

  /// Stops the machine before the operation of index `operation`, counted from now on.
  void crash_at(std::uint64_t operation) {
    operations_ = 0;
    crash_at_ = operation;
  }
  /// Refuses the rename of index `index`, counted from now on, with an Error.
  void refuse_rename(std::uint64_t index) { renames_left_ = index; }
  /// Allows this many more bytes to be written.
  void set_free_bytes(std::uint64_t bytes) { free_bytes_ = bytes; }
  std::uint64_t operations() const { return operations_; }

  /// Starts the machine again after a crash. `seed` chooses among the torn outcomes.
  void restart(Unsynced unsynced, std::uint64_t seed) {
    std::uint64_t draws = 0;
    const auto below = [&](std::uint64_t bound) {
      return random_below(random_bits(seed, 0, draws++), bound);
    };
    // A journal replays in order: some prefix of the pending changes arrives.
    std::size_t arriving = unsynced == Unsynced::kLost   ? 0
                           : unsynced == Unsynced::kKept ? pending_.size()
                                                         : below(pending_.size() + 1);
    for (std::size_t i = 0; i < arriving; ++i) apply(pending_[i]);
    pending_.clear();
    for (auto& node : nodes_) {
      node.entries = node.durable_entries;
      if (node.data == node.durable_data || unsynced == Unsynced::kLost) {
        node.data = node.durable_data;
      } else if (unsynced == Unsynced::kTorn) {
        if (node.data.starts_with(node.durable_data))
          node.data.resize(node.durable_data.size() +
                           below(node.data.size() - node.durable_data.size() + 1));
        else if (below(2) == 0)
          node.data = node.durable_data;
      }
      node.durable_data = node.data;
    }
    for (const auto& entry : std::filesystem::directory_iterator(root_))
      std::filesystem::remove_all(entry.path());
    write_out(0, root_);
    dead_ = false;
    crash_at_ = kNever;
    free_bytes_ = kNever;
  }

  std::unique_ptr<OutputFile> open(const Path& path, OpenMode mode) override {
    if (!alive()) return std::make_unique<File>(*this, 0, nullptr);
    auto real = real_file_system().open(path, mode);
    auto [parent, name] = locate(path);
    const auto found = nodes_[parent].entries.find(name);
    std::size_t node = 0;
    if (found == nodes_[parent].entries.end()) {
      node = nodes_.size();
      nodes_.push_back({});
      change({{parent, name, node}});
    } else {
      node = found->second;
      if (mode == OpenMode::kTruncate) nodes_[node].data.clear();
    }
    return std::make_unique<File>(*this, node, std::move(real));
  }
  void rename(const Path& from, const Path& to) override {
    if (!alive()) return;
    if (renames_left_ != kNever && renames_left_-- == 0) {
      renames_left_ = kNever;
      throw Error(concat("cannot rename ", from.string(), " on the pretended device"));
    }
    real_file_system().rename(from, to);
    const auto [from_parent, from_name] = locate(from);
    const auto [to_parent, to_name] = locate(to);
    const std::size_t node = nodes_[from_parent].entries.at(from_name);
    change({{to_parent, to_name, node}, {from_parent, from_name, kGone}});
  }
  void sync_directory(const Path& path) override {
    if (!alive()) return;
    const std::size_t node = find(path);
    std::vector<Change> left;
    for (auto& change : pending_) {
      const bool here =
          std::ranges::any_of(change, [&](auto& entry) { return entry.parent == node; });
      here ? apply(change) : left.push_back(std::move(change));
    }
    pending_ = std::move(left);
  }
  bool create_directory(const Path& path) override {
    if (!alive() || !real_file_system().create_directory(path)) return false;
    auto [parent, name] = locate(path);
    nodes_.push_back({.directory = true});
    change({{parent, name, nodes_.size() - 1}});
    return true;
  }
  void remove_all(const Path& path) override {
    if (!alive() || !exists(path)) return;
    // Removes the entries one by one, so that a crash can leave a directory half empty.
    const auto [parent, name] = locate(path);
    const std::size_t node = nodes_[parent].entries.at(name);
    const auto entries = nodes_[node].entries;
    for (const auto& [child, below] : entries) remove_all(path / child);
    if (!alive()) return;
    real_file_system().remove_all(path);
    change({{parent, name, kGone}});
  }
  std::vector<std::string> list(const Path& path) override { return real_file_system().list(path); }
  bool exists(const Path& path) override { return real_file_system().exists(path); }
  std::uint64_t size(const Path& path) override { return real_file_system().size(path); }
  std::string read(const Path& path, std::uint64_t limit = std::uint64_t{1} << 30) override {
    return real_file_system().read(path, limit);
  }

 private:
  static constexpr std::size_t kGone = std::numeric_limits<std::size_t>::max();

  struct Node {
    bool directory = false;
    std::string data, durable_data;
    std::map<std::string, std::size_t> entries, durable_entries;
  };
  struct EntryChange {
    std::size_t parent;
    std::string name;
    std::size_t node;  // or kGone
  };
  using Change = std::vector<EntryChange>;

  class File : public OutputFile {
   public:
    File(FaultyFileSystem& fs, std::size_t node, std::unique_ptr<OutputFile> real)
        : fs_(fs), node_(node), real_(std::move(real)) {}
    void write(Bytes bytes) override {
      if (!fs_.alive()) return;
      const auto fitting = std::min<std::uint64_t>(bytes.size(), fs_.free_bytes_);
      fs_.free_bytes_ -= fs_.free_bytes_ == kNever ? 0 : fitting;
      real_->write(bytes.first(fitting));
      fs_.nodes_[node_].data.append(reinterpret_cast<const char*>(bytes.data()), fitting);
      if (fitting < bytes.size()) throw DiskFullError("no space left on the pretended device");
    }
    void sync() override {
      if (fs_.alive()) fs_.nodes_[node_].durable_data = fs_.nodes_[node_].data;
    }
    void close() override {
      if (fs_.alive()) real_->close();
    }

   private:
    FaultyFileSystem& fs_;
    std::size_t node_;
    std::unique_ptr<OutputFile> real_;
  };

  /// Counts an operation. Returns false once the machine has stopped (destructors still run then).
  bool alive() {
    if (dead_) return false;
    if (operations_++ < crash_at_) return true;
    dead_ = true;
    throw Crash();
  }
  std::size_t find(const Path& path) const {
    std::size_t node = 0;
    for (const auto& part : path.lexically_relative(root_))
      if (part != ".") node = nodes_[node].entries.at(part.string());
    return node;
  }
  std::pair<std::size_t, std::string> locate(const Path& path) const {
    return {find(path.parent_path()), path.filename().string()};
  }
  void change(Change change) {
    for (const auto& entry : change) set(nodes_[entry.parent].entries, entry);
    pending_.push_back(std::move(change));
  }
  void apply(const Change& change) {
    for (const auto& entry : change) set(nodes_[entry.parent].durable_entries, entry);
  }
  static void set(std::map<std::string, std::size_t>& entries, const EntryChange& entry) {
    if (entry.node == kGone)
      entries.erase(entry.name);
    else
      entries[entry.name] = entry.node;
  }
  void write_out(std::size_t node, const Path& path) const {
    for (const auto& [name, below] : nodes_[node].entries) {
      if (nodes_[below].directory) {
        real_file_system().create_directory(path / name);
        write_out(below, path / name);
      } else {
        real_file_system()
            .open(path / name, OpenMode::kTruncate)
            ->write(bytes_of(nodes_[below].data));
      }
    }
  }

  Path root_;
  std::vector<Node> nodes_;
  std::vector<Change> pending_;
  std::uint64_t operations_ = 0, crash_at_ = kNever, free_bytes_ = kNever;
  std::uint64_t renames_left_ = kNever;
  bool dead_ = false;
};

}  // namespace penstock::testing
