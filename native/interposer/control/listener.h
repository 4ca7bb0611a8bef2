// The listening socket and who may connect to it.
#pragma once

#include <sys/socket.h>

#include <optional>
#include <string>

#include "../arena/descriptor.h"

namespace torpor::control {

// The same descriptor at a high number, so that the numbers which the program's own files get do not change.
Descriptor moved_up(Descriptor low);

// A listening, non-blocking SOCK_SEQPACKET socket at `path`, mode 0700, in place of what was there; empty with errno set when the
// system gives none.
Descriptor listen_at(const std::string& path);

// Whether `socket` is a socket bound at `path`. A program that closes every descriptor it does not know closes ours,
// and may then open its own at the same number.
bool bound_to(int socket, const std::string& path);

// Who is at the other end: the process that connected, or for who connected the one that listens. Its pid is as we see
// it, 0 for one outside of our PID namespace. Empty when the system does not say.
std::optional<ucred> peer_of(int connection);

}  // namespace torpor::control
