#include "server.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <mutex>

#include "../control/listener.h"
#include "../control/thread.h"
#include "../generated/real.h"
#include "../prim/errno_kept.h"
#include "../prim/fork_hold.h"
#include "../prim/log.h"
#include "../prim/thread.h"
#include "event_table.h"
#include "events.h"
#include "message.h"

namespace torpor::share {
namespace {

// How many peers may have connected and said nothing yet, and for how long: no connection is to be open when CRIU comes. One
// more takes the place of whoever has been silent longest.
constexpr std::size_t kConnections = 32;
constexpr std::uint64_t kPatience = 5'000'000;  // us

struct Server {
  Server() {
    for (auto& each : connections) each = -1;
  }
  std::mutex starting;
  std::string path;
  pid_t pid = 0;
  std::atomic<int> listener{-1};
  std::array<std::atomic<int>, kConnections> connections;   // -1: none
  std::array<std::uint64_t, kConnections> deadlines{};       // of those, on the monotonic clock in us
};

Server& server() {
  static auto* const instance = new Server;
  return *instance;
}

template <typename Reply>
void send(int connection, Reply reply, int fd) {
  iovec part{&reply, sizeof reply};
  alignas(cmsghdr) char ancillary[CMSG_SPACE(sizeof fd)]{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = ancillary;
    message.msg_controllen = sizeof ancillary;
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  }
  ::sendmsg(connection, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void answer(int connection, const EventRequest& request) {
  const ForkHold hold;
  Descriptor descriptor;
  const EventReply reply = events::answer(request, descriptor);
  send(connection, reply, descriptor.get());
}

void answer(int connection, const Request& request) {
  Reply reply;
  int device = 0;
  arena::SharedName own = arena::own_name();
  own.block = request.block.block;
  const ForkHold hold;
  Descriptor descriptor;
  arena::Arena* const arena = arena::Arena::get();
  if (request.magic == kMagic && request.block == own && arena != nullptr) {
    descriptor = arena->shared_descriptor(request.block.block, reply.size, device);
  }
  if (!descriptor || real::cuDeviceGetUuid_v2(&reply.device, device) != CUDA_SUCCESS) {
    reply.size = 0;
    descriptor.reset();
  }
  send(connection, reply, descriptor.get());
}

// A request comes whole; what is none has no answer.
void answer(int connection) {
  std::array<std::byte, sizeof(Request) + sizeof(EventRequest)> message;
  const ssize_t length = ::recv(connection, message.data(), message.size(), MSG_DONTWAIT);
  if (length == sizeof(EventRequest) && starts_with(message, kEventMagic)) {
    EventRequest request;
    std::memcpy(static_cast<void*>(&request), message.data(), sizeof request);
    answer(connection, request);
  } else if (length == sizeof(Request)) {
    Request request;
    std::memcpy(static_cast<void*>(&request), message.data(), sizeof request);
    answer(connection, request);
  }
}

void drop(std::size_t place) {
  Server& self = server();
  const int connection = self.connections[place].exchange(-1);
  // The program may have closed it, and have something else there.
  if (connection >= 0 && control::bound_to(connection, self.path)) ::close(connection);
}

// Processes of the job under our own user id, and root's. Those outside of the job have no number in its PID namespace.
bool is_peer(int connection) {
  const auto peer = control::peer_of(connection);
  return peer && peer->pid != 0 && (peer->uid == 0 || peer->uid == ::geteuid());
}

void accept_one() {
  Server& self = server();
  Descriptor connection = control::moved_up(Descriptor(::accept4(self.listener, nullptr, nullptr, SOCK_CLOEXEC)));
  if (!connection || !is_peer(connection.get())) return;
  std::size_t place = 0;
  for (std::size_t i = 0; i < kConnections; ++i) {
    const auto rank = [&self](std::size_t each) { return self.connections[each] >= 0 ? self.deadlines[each] : 0; };
    if (rank(i) < rank(place)) place = i;
  }
  drop(place);
  self.deadlines[place] = thread::monotonic_microseconds() + kPatience;
  self.connections[place] = connection.release();
}

// Opens the socket again after the program has closed what it did not know. False when that cannot be done.
bool reopen() {
  Server& self = server();
  Descriptor again = control::listen_at(self.path);
  if (!again) {
    log::error("the socket %s was closed and cannot be opened again; peers cannot open memory of this process",
               self.path.c_str());
    return false;
  }
  self.listener = again.release();
  return true;
}

void body() {
  Server& self = server();
  std::array<pollfd, kConnections + 1> wanted;  // the last one is the listener
  for (;;) {
    const std::uint64_t now = thread::monotonic_microseconds();
    int limit = -1;  // ms
    for (std::size_t i = 0; i < kConnections; ++i) {
      if (self.connections[i] >= 0 && self.deadlines[i] <= now) drop(i);
      wanted[i] = {self.connections[i], POLLIN, 0};
      if (wanted[i].fd < 0) continue;
      const int left = static_cast<int>((self.deadlines[i] - now) / 1000) + 1;
      limit = limit < 0 ? left : std::min(limit, left);
    }
    wanted.back() = {self.listener, POLLIN, 0};
    // accept() would take the lowest free number before it waits, so waiting comes first.
    if (::poll(wanted.data(), wanted.size(), limit) <= 0) continue;
    for (std::size_t i = 0; i < kConnections; ++i) {
      if (wanted[i].revents == 0) continue;
      if (control::bound_to(wanted[i].fd, self.path)) answer(wanted[i].fd);
      drop(i);
    }
    if (wanted.back().revents == 0) continue;
    if (wanted.back().revents == POLLIN) accept_one();
    if (control::bound_to(self.listener, self.path)) continue;
    thread::sleep_microseconds(100000);
    if (!reopen()) return;
  }
}

void close_in_child() {
  const auto close = [](std::atomic<int>& each) {
    if (const int fd = each.exchange(-1); fd >= 0) ::close(fd);
  };
  close(server().listener);
  for (auto& each : server().connections) close(each);
  event_table::close_in_child();
}

void remove_socket() {
  if (server().pid == ::getpid()) ::unlink(server().path.c_str());
}

}  // namespace

std::string socket_of(std::int64_t pid) {
  const char* const folder = std::getenv("TORPOR_JOB_DIR");
  if (folder == nullptr || *folder == '\0') return {};
  return std::string(folder) + "/ctl/" + std::to_string(pid) + ".peer";
}

bool serve() {
  const ErrnoKept kept;
  Server& self = server();
  const std::lock_guard guard(self.starting);
  if (self.pid == ::getpid()) return true;
  self.path = socket_of(::getpid());
  if (self.path.empty()) return false;
  Descriptor listener = control::listen_at(self.path);
  if (!listener) return false;
  static const int forks = ::pthread_atfork(nullptr, nullptr, close_in_child);
  static const int exits = std::atexit(remove_socket);
  self.listener = listener.release();
  if (forks != 0 || exits != 0 || !control::start_thread("torpor-peers", body)) {
    ::unlink(self.path.c_str());
    close_in_child();
    return false;
  }
  self.pid = ::getpid();
  return true;
}

}  // namespace torpor::share
