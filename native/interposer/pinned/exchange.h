// Memory of the program becomes a file, and private memory again, while its threads go on: whoever needs a part that is
// under way waits for that part, and no write is lost.
//
// Several threads, slice by slice, so that no more than some slices are there twice. Callers keep other threads from
// forking. Nothing is allocated and no lock of the program's is taken while anybody waits: the memory may be what locks
// and allocator live in.
#pragma once

#include "mappings.h"
#include "span.h"

namespace torpor::pinned {

// Page `address` of a piece that begins at `start` has this offset in the piece's file: huge pages begin at the same
// places.
inline std::uint64_t offset_in_file(std::uint64_t start, std::uint64_t address) {
  return address - start / kHugePage * kHugePage;
}

// Whether threads can be made to wait here, as far as is known: false once it failed.
bool may_exchange();

// Makes `piece`, all of it in these mappings (as of is_plain), a shared mapping of a new file with the same bytes.
// False when that did not come to its end: some of it may be mapped from a file then.
bool into_file(const Span& piece, const Spans& mappings);

// Makes what is mapped from the files of `piece` private memory with the same bytes. False when some of it still is a
// file's, as when something uses pages by their number.
bool out_of_file(const Span& piece, Pages advice);

// The same in a child right after its fork, where nobody else is: its parent's memory stays as it is.
bool leave_file(const Span& piece, Pages advice);

}  // namespace torpor::pinned
