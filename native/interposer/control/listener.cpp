#include "listener.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace torpor::control {
namespace {

// Clear of the range in which programs count their descriptors.
constexpr int kLowestDescriptor = 400;

std::optional<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return std::nullopt;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

}  // namespace

Descriptor moved_up(Descriptor low) {
  const int high = ::fcntl(low.get(), F_DUPFD_CLOEXEC, kLowestDescriptor);
  return high >= 0 ? Descriptor(high) : std::move(low);
}

Descriptor listen_at(const std::string& path) {
  const auto address = address_of(path);
  if (!address) {
    errno = ENAMETOOLONG;
    return {};
  }
  Descriptor socket = moved_up(Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)));
  if (!socket) return {};
  ::unlink(path.c_str());
  ::fchmod(socket.get(), 0700);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) return {};
  if (::listen(socket.get(), 8) != 0) return {};
  return socket;
}

bool bound_to(int listener, const std::string& path) {
  sockaddr_un bound{};
  socklen_t length = sizeof bound;
  return ::getsockname(listener, reinterpret_cast<sockaddr*>(&bound), &length) == 0 && bound.sun_family == AF_UNIX &&
         path == bound.sun_path;
}

std::optional<ucred> peer_of(int connection) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return std::nullopt;
  return peer;
}

}  // namespace torpor::control
