// One packet of the control protocol with its descriptors, over a connected SOCK_SEQPACKET socket.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "../arena/descriptor.h"
#include "protocol.h"

namespace torpor::control {

struct Packet {
  Header header{};
  std::string payload;
  std::vector<Descriptor> descriptors;
};

enum class Received {
  packet,   // `out` holds a well-formed packet
  garbage,  // something came that is not a packet of ours: wrong magic, version, length, or cut
  closed,   // the peer is gone
};

// Waits for the next packet. Descriptors that come with garbage are closed.
Received receive(int socket, Packet& out);

// Sends one reply; false when the peer is gone. Copies of the descriptors travel, the caller keeps its own. Never
// raises SIGPIPE.
bool send_reply(int socket, Op op, std::int32_t status, std::string_view payload,
                const std::vector<Descriptor>& descriptors = {});

}  // namespace torpor::control
