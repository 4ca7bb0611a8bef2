#include "client.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "../control/listener.h"
#include "../prim/errno_kept.h"
#include "../prim/fork_hold.h"
#include "../prim/thread.h"

namespace torpor::share {
namespace {

// Empty, with errno set, when nobody listens there, or another process does.
Descriptor connect_to(std::int64_t pid) {
  const std::string path = socket_of(pid);
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
  errno = EACCES;
  const auto peer = control::peer_of(socket.get());
  return peer && peer->pid == pid ? std::move(socket) : Descriptor();
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

// Sends the request and waits for the whole reply.
template <typename Question, typename Reply>
bool exchange(const Descriptor& socket, const Question& request, Reply& reply, Descriptor& descriptor) {
  iovec whole{&reply, sizeof reply};
  alignas(cmsghdr) char ancillary[CMSG_SPACE(sizeof(int))]{};
  msghdr message{};
  message.msg_iov = &whole;
  message.msg_iovlen = 1;
  message.msg_control = ancillary;
  message.msg_controllen = sizeof ancillary;
  if (::send(socket.get(), &request, sizeof request, MSG_NOSIGNAL) != sizeof request) return false;
  if (receive(socket.get(), message) != sizeof reply) return false;
  descriptor = first_descriptor(message);
  return true;
}

// Whether no thread of the process runs any more. One that nobody has waited for can still be found.
bool has_ended(pid_t pid) {
  if (::kill(pid, 0) != 0) return errno == ESRCH;
  char path[32], text[1024];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const Descriptor file = control::moved_up(Descriptor(::open(path, O_RDONLY | O_CLOEXEC)));
  const ssize_t length = file ? ::read(file.get(), text, sizeof text - 1) : 0;
  if (length <= 0) return false;
  text[length] = '\0';
  const char* const name_end = std::strrchr(text, ')');  // the name may have anything in it
  char state = ' ';
  long threads = 0;
  constexpr const char* kFields = ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %ld";
  if (name_end == nullptr || std::sscanf(name_end, kFields, &state, &threads) != 2) return false;
  return (state == 'Z' || state == 'X') && threads <= 1;  // the first thread may end before the others
}

}  // namespace

std::optional<EventReply> ask(const EventRequest& request, Descriptor& descriptor) {
  const ErrnoKept kept;
  Descriptor socket;
  // A socket that is not there may be about to be opened again; that of a process that has ended will not be.
  for (int tries = 0; !(socket = connect_to(request.pid)); ++tries) {
    if (errno != ENOENT && errno != ECONNREFUSED) return std::nullopt;
    if (tries == 20 || has_ended(static_cast<pid_t>(request.pid))) return EventReply{};
    thread::sleep_microseconds(10000);
  }
  EventReply reply;
  // Asked again when it does not answer, an ended process is found to be.
  if (!exchange(socket, request, reply, descriptor)) return std::nullopt;
  return reply;
}

std::optional<EventReply> ask(const EventRequest& request) {
  const ForkHold hold;
  Descriptor none;
  return ask(request, none);
}

Answer ask(const arena::SharedName& block) {
  const ErrnoKept kept;
  Answer out;
  const Descriptor socket = connect_to(block.pid);
  Reply reply;
  Descriptor descriptor;
  if (!socket || !exchange(socket, Request{kMagic, block}, reply, descriptor) || reply.size == 0) return out;
  out.descriptor = std::move(descriptor);
  out.size = reply.size;
  out.device = reply.device;
  return out;
}

}  // namespace torpor::share
