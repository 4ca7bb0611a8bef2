#include "server.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

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
#include "events.h"
#include "message.h"

namespace torpor::share {
namespace {

struct Server {
  std::mutex starting;
  std::string path;
  pid_t pid = 0;
  std::atomic<int> listener{-1};
  std::atomic<int> connection{-1};
};

Server& server() {
  static auto* const instance = new Server;
  return *instance;
}

// accept() would take the lowest free number before it waits, so waiting comes first.
bool readable(int socket, int milliseconds) {
  pollfd wanted{socket, POLLIN, 0};
  int ready;
  do {
    ready = ::poll(&wanted, 1, milliseconds);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

void send(int connection, const Reply& reply, int fd) {
  iovec part{const_cast<Reply*>(&reply), sizeof reply};
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

void answer(int connection) {
  std::array<std::byte, sizeof(Request) + sizeof(EventRequest)> message;
  if (!readable(connection, 5000)) return;
  const ssize_t length = ::recv(connection, message.data(), message.size(), 0);
  if (length == sizeof(EventRequest) && starts_with(message, kEventMagic)) {
    EventRequest about;
    std::memcpy(static_cast<void*>(&about), message.data(), sizeof about);
    const EventReply reply = events::answer(about);
    ::send(connection, &reply, sizeof reply, MSG_NOSIGNAL | MSG_DONTWAIT);
    return;
  }
  if (length != sizeof(Request)) return;
  Request request;
  std::memcpy(static_cast<void*>(&request), message.data(), sizeof request);
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

void body() {
  Server& self = server();
  for (;;) {
    if (!readable(self.listener, -1)) continue;
    Descriptor connection = control::moved_up(Descriptor(::accept4(self.listener, nullptr, nullptr, SOCK_CLOEXEC)));
    if (connection) {
      self.connection = connection.get();
      if (control::may_talk(connection.get())) answer(connection.get());
      self.connection = -1;
      continue;
    }
    thread::sleep_microseconds(errno == EAGAIN ? 1000 : 100000);
    if (control::bound_to(self.listener, self.path)) continue;
    // The program closed what it did not know.
    Descriptor again = control::listen_at(self.path);
    if (!again) {
      log::error("the socket %s was closed and cannot be opened again; peers cannot open memory of this process",
                 self.path.c_str());
      return;
    }
    self.listener = again.release();
  }
}

void close_in_child() {
  for (std::atomic<int>* const each : {&server().listener, &server().connection}) {
    if (const int fd = each->exchange(-1); fd >= 0) ::close(fd);
  }
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
