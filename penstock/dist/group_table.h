// The state that all groups of a run share: the table of ranks, this rank's heartbeat, and the lost
// rank.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/dist/group_options.h"
#include "penstock/dist/heartbeat.h"
#include "penstock/dist/identity.h"
#include "penstock/dist/key_server.h"
#include "penstock/dist/links.h"
#include "penstock/dist/lost_rank.h"

namespace penstock::dist {

/// What the table of ranks holds from its start: the number of the job's ranks, and the job's name
/// (job_name()).
KeyValues values_of_job(int ranks, const std::string& name = "");

class GroupTable {
 public:
  /// Listens if this rank hosts the table, and connects. Throws Error that names the address; also
  /// if the table is not one of ranks, or its job has another number of ranks or another name (that
  /// job goes on).
  /// @param connecting  called repeatedly until connected; may be null
  GroupTable(const Identity& identity, const GroupOptions& options,
             const std::function<void()>& connecting);
  ~GroupTable();
  GroupTable(const GroupTable&) = delete;
  GroupTable& operator=(const GroupTable&) = delete;

  const std::shared_ptr<KeyClient>& client() const { return client_; }
  Links& links() { return links_; }
  /// Says what is wrong if ranks do not arrive: a rank that counts another number of ranks, or is
  /// of another job, was refused, or a host's name leads to the loopback, where ranks on other
  /// machines cannot come in. On Debian a machine's own name does. Otherwise "".
  std::string why_missing() const;
  /// Makes this rank's client one of IPv4. Gloo connects ranks by one protocol only, and other
  /// ranks may not reach the addresses of IPv6 that the name of rank 0's machine also has. Throws
  /// Error if this rank does not reach an address of IPv4.
  void come_by_ipv4();
  /// Starts this rank's heartbeat.
  void begin_heartbeat();
  /// Announces this rank's normal end for all groups, so that others do not lose it.
  void leave();
  /// Stops the heartbeat, and closes the table if this rank hosts it, even if another thread still
  /// holds this object. Without leave() before it, this rank counts as failed.
  void end();
  /// Sets the ranks' names for messages.
  void set_names(std::vector<std::string> names);
  /// Describes the lost rank: "rank 2 on host7, which has not been heard of for 25 s". Nothing if
  /// no rank is lost. Messages append it to "rank 1 on host7 lost".
  std::optional<std::string> lost() const;
  /// The same after an exchange failed, with a short wait: another rank may have learned of the
  /// loss first and ended its connections, and this rank learns a moment later which rank is lost.
  std::optional<std::string> lost_after_all() const;
  /// Throws LostRank if a rank is lost.
  void check() const;
  /// Records that an operation of this rank lost some other rank.
  void lose_another();
  /// Runs the action. Throws LostRank if the table no longer answers because a rank is lost.
  void naming_the_lost(const std::function<void()>& action) const;
  /// Options for a client of another table, with the same patience.
  KeyClientOptions client_options(std::string prefix = "") const;

 private:
  void check_counts_alike();
  void check_same_job(const std::string& job);
  std::string loopback_notice() const;
  std::string name(const RankLoss& lost) const;

  Identity identity_;
  std::chrono::seconds silence_;
  std::optional<KeyServer> server_;
  std::shared_ptr<KeyClient> client_;
  std::vector<std::string> names_;
  Links links_;
  std::optional<Heartbeat> heartbeat_;  // last: it uses the others
};

}  // namespace penstock::dist
