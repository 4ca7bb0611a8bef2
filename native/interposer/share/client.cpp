#include "client.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cerrno>
#include <csignal>

#include "../control/listener.h"
#include "../prim/errno_kept.h"
#include "../prim/fork_hold.h"
#include "../prim/thread.h"

namespace torpor::share {
namespace {

// Empty, with errno set, when nobody listens there.
Descriptor connect_to(const std::string& path) {
  sockaddr_un address{};
  errno = ENOENT;
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return {};
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  Descriptor socket = control::moved_up(Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)));
  if (!socket) return {};
  const timeval patience{10, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return {};
  return control::may_talk(socket.get()) ? std::move(socket) : Descriptor();
}

Descriptor first_descriptor(msghdr& message) {
  const cmsghdr* const part = CMSG_FIRSTHDR(&message);
  if (part == nullptr || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) return {};
  int fd;
  std::memcpy(&fd, CMSG_DATA(part), sizeof fd);
  return Descriptor(fd);
}

ssize_t receive(int socket, msghdr& message) {
  ssize_t length;
  do {
    length = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (length < 0 && errno == EINTR);
  return length;
}

}  // namespace

std::optional<EventReply> ask(const EventRequest& request) {
  const ErrnoKept kept;
  const ForkHold hold;
  Descriptor socket;
  // A socket that is not there may be about to be opened again; that of a process that has ended will not be.
  for (int tries = 0; !(socket = connect_to(socket_of(request.event.pid))); ++tries) {
    if (errno != ENOENT && errno != ECONNREFUSED) return std::nullopt;
    const bool ended = ::kill(static_cast<pid_t>(request.event.pid), 0) != 0 && errno == ESRCH;
    if (ended || tries == 20) return EventReply{};
    thread::sleep_microseconds(10000);
  }
  EventReply reply;
  iovec whole{&reply, sizeof reply};
  msghdr message{};
  message.msg_iov = &whole;
  message.msg_iovlen = 1;
  if (::send(socket.get(), &request, sizeof request, MSG_NOSIGNAL) != sizeof request) return std::nullopt;
  if (receive(socket.get(), message) != sizeof reply) return std::nullopt;  // asked again, an ended process is found to be
  return reply;
}

Answer ask(const arena::SharedName& block) {
  const ErrnoKept kept;
  Answer out;
  const Descriptor socket = connect_to(socket_of(block.pid));
  const Request request{kMagic, block};
  if (!socket || ::send(socket.get(), &request, sizeof request, MSG_NOSIGNAL) != sizeof request) return out;
  Reply reply;
  iovec whole{&reply, sizeof reply};
  alignas(cmsghdr) char ancillary[CMSG_SPACE(sizeof(int))]{};
  msghdr message{};
  message.msg_iov = &whole;
  message.msg_iovlen = 1;
  message.msg_control = ancillary;
  message.msg_controllen = sizeof ancillary;
  if (receive(socket.get(), message) != sizeof reply) return out;
  Descriptor descriptor = first_descriptor(message);
  if (reply.size == 0) return out;
  out.descriptor = std::move(descriptor);
  out.size = reply.size;
  out.device = reply.device;
  return out;
}

}  // namespace torpor::share
