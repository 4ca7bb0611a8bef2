#include "packet.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace torpor::control {
namespace {

constexpr std::size_t kAncillary = CMSG_SPACE(kMaxDescriptors * sizeof(int));

void collect(msghdr& message, std::vector<Descriptor>& out) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
      out.emplace_back(fd);
    }
  }
}

}  // namespace

Received receive(int socket, Packet& out) {
  out = Packet{};
  std::string bytes(kMaxPacket, '\0');
  alignas(cmsghdr) std::array<char, kAncillary> ancillary{};
  iovec whole{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &whole;
  message.msg_iovlen = 1;
  message.msg_control = ancillary.data();
  message.msg_controllen = ancillary.size();

  ssize_t length;
  do {
    length = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (length < 0 && errno == EINTR);
  if (length <= 0) return Received::closed;
  collect(message, out.descriptors);

  const auto received = static_cast<std::size_t>(length);
  const bool cut = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
  if (received >= sizeof(Header)) std::memcpy(&out.header, bytes.data(), sizeof(Header));
  if (cut || received < sizeof(Header) || out.header.magic != kMagic || out.header.version != kVersion ||
      out.header.length != received - sizeof(Header)) {
    out.descriptors.clear();
    return Received::garbage;
  }
  out.payload.assign(bytes, sizeof(Header), out.header.length);
  return Received::packet;
}

bool send_reply(int socket, Op op, std::int32_t status, std::string_view payload,
                const std::vector<Descriptor>& descriptors) {
  Header header{kMagic, kVersion, static_cast<std::uint16_t>(op), status, static_cast<std::uint32_t>(payload.size())};
  std::array<iovec, 2> parts{{{&header, sizeof header}, {const_cast<char*>(payload.data()), payload.size()}}};
  alignas(cmsghdr) std::array<char, kAncillary> ancillary{};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  if (!descriptors.empty()) {
    message.msg_control = ancillary.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    for (std::size_t i = 0; i < descriptors.size(); ++i) {
      const int fd = descriptors[i].get();
      std::memcpy(CMSG_DATA(rights) + i * sizeof(int), &fd, sizeof fd);
    }
  }
  ssize_t sent;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof header + payload.size());
}

}  // namespace torpor::control
