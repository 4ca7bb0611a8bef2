// What a fork means for registered memory that lies in files: the child gets copies of its own, as the kernel copies
// pinned pages for it natively.
#pragma once

namespace torpor::pinned::forks {

// From the first call on every fork of this process is seen to. False when that cannot be.
bool watched();

// Whether this thread forks: a handler of the program's, after ours before the fork or before ours after it, makes the call.
bool under_way();

// Whether no child can be using the files: one that got stuck while it copied still would.
bool children_are_apart();

}  // namespace torpor::pinned::forks
