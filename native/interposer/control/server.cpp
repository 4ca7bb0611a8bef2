// The control thread: one listening socket, one connection at a time.
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "../prim/errno_kept.h"
#include "../prim/fork_hold.h"
#include "../prim/log.h"
#include "../prim/thread.h"
#include "../profile/profile.h"
#include "control.h"
#include "listener.h"
#include "operations.h"
#include "packet.h"
#include "replies.h"
#include "thread.h"

namespace torpor::control {
namespace {

struct Server {
  std::string path;
  uid_t owner = 0;  // of the job, which this process need not be
  pid_t pid = 0;
  std::atomic<int> listener{-1};
  std::atomic<int> connection{-1};
};

Server& server() {
  static auto* const instance = new Server;
  return *instance;
}

// Waits for the next request or connection without holding anything, and sees to what ends meanwhile. accept() itself would not do: it takes the lowest
// free descriptor number before it waits, and the program's next file would get another number than without us.
bool readable(int socket) {
  pollfd wanted{socket, POLLIN, 0};
  int ready;
  do {
    ready = ::poll(&wanted, 1, profile::lease_left());
    if (ready == 0) profile::expire();
  } while (ready == 0 || (ready < 0 && errno == EINTR));
  return ready > 0;
}

// The keeper is the job's owner or root. Whoever else has our user id, in the job or outside, is not let in.
bool is_keeper(int connection) {
  const auto peer = peer_of(connection);
  return peer && (peer->uid == 0 || peer->uid == server().owner);
}

Reply perform(Operations& operations, Packet& request) {
  try {
    return operations.perform(request);
  } catch (const std::exception& error) {
    return refused(kSystem, error.what());
  }
}

// False when the peer is gone.
bool answer(int connection, Operations& operations) {
  if (!readable(connection)) return false;
  ForkHold passing;  // until descriptors of blocks have gone on
  Packet request;
  const Received received = receive(connection, request);
  if (received == Received::closed) return false;
  const Op op = static_cast<Op>(request.header.op);
  Reply reply;
  if (received == Received::garbage) {
    reply = refused(kBadRequest, "not a packet of this protocol");
  } else {
    // Only these two carry descriptors; FREEZE may take long, and must not hold up a fork.
    if (op != Op::export_blocks && op != Op::take_back) {
      request.descriptors.clear();
      passing.end();
    }
    reply = perform(operations, request);
  }
  return send_reply(connection, op, reply.status, reply.payload, reply.descriptors);
}

void serve(Descriptor connection, Operations& operations) {
  server().connection = connection.get();
  // A peer that sends without reading must not hold this thread, and with it a fork, for ever.
  const timeval patience{10, 0};
  ::setsockopt(connection.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  while (answer(connection.get(), operations)) {
  }
  operations.peer_left();
  server().connection = -1;
}

// What accept() says when it may work again later, with the same socket.
bool passing_trouble(int error) {
  return error == EINTR || error == EAGAIN || error == ECONNABORTED || error == EMFILE || error == ENFILE || error == ENOMEM ||
         error == ENOBUFS;
}

void body() {
  Server& self = server();
  static auto* const operations = new Operations;
  profile::listening();
  for (;;) {
    readable(self.listener);
    Descriptor connection(::accept4(self.listener, nullptr, nullptr, SOCK_CLOEXEC));
    const int error = connection ? 0 : errno;
    if (connection) {
      connection = moved_up(std::move(connection));
      if (is_keeper(connection.get())) serve(std::move(connection), *operations);
    } else if (error != EINTR && error != EAGAIN) {
      thread::sleep_microseconds(100000);
    }
    const bool ours = bound_to(self.listener, self.path);
    if (ours && (error == 0 || passing_trouble(error))) continue;
    if (ours) ::close(self.listener);
    Descriptor again = listen_at(self.path);
    if (!again) {
      log::error("control socket %s was closed and cannot be opened again: %s", self.path.c_str(), std::strerror(errno));
      return;
    }
    self.listener = again.release();
  }
}

void remove_socket() {
  if (server().pid == ::getpid()) ::unlink(server().path.c_str());
}

void close_in_child() {
  Server& self = server();
  for (std::atomic<int>* const each : {&self.listener, &self.connection}) {
    if (const int fd = each->exchange(-1); fd >= 0) ::close(fd);
  }
}

void listen_and_serve(const char* folder) {
  Server& self = server();
  const std::string sockets = std::string(folder) + "/ctl";
  if (::mkdir(sockets.c_str(), 0700) != 0 && errno != EEXIST) {
    log::error("cannot make %s: %s; this process cannot be saved", sockets.c_str(), std::strerror(errno));
    return;
  }
  struct stat job {};
  self.owner = ::stat(folder, &job) == 0 ? job.st_uid : ::geteuid();
  self.pid = ::getpid();
  self.path = sockets + "/" + std::to_string(self.pid);
  Descriptor listener = listen_at(self.path);
  if (!listener) {
    log::error("cannot listen at %s: %s; this process cannot be saved", self.path.c_str(), std::strerror(errno));
    return;
  }
  self.listener = listener.release();
  static const int forks = ::pthread_atfork(nullptr, nullptr, close_in_child);
  static const int exits = std::atexit(remove_socket);
  if (forks != 0 || exits != 0 || !start_thread("torpor-control", body)) {
    log::error("cannot start the control thread; this process cannot be saved");
    ::unlink(self.path.c_str());
    close_in_child();
  }
}

}  // namespace

void start() noexcept {
  static std::atomic<pid_t> started{0};
  const ErrnoKept kept;
  const char* const folder = std::getenv("TORPOR_JOB_DIR");
  if (folder == nullptr || *folder == '\0') return;
  const pid_t self = ::getpid();
  if (started.exchange(self) == self) return;
  try {
    listen_and_serve(folder);
  } catch (const std::exception& error) {
    log::error("cannot start the control thread: %s; this process cannot be saved", error.what());
  }
}

}  // namespace torpor::control
