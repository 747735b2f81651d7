// SPDX-License-Identifier: GPL-2.0-only
/*
 * What tests of version 2 have in common: a connection that may speak it, and answers word by word.
 */
#pragma once

#include "test.hh"

namespace verbs::two {

/** These words. */
Octets octets(std::initializer_list<u32> values);
/** A connection whose private data have the mark, or not. */
Connection &connect(Test &t, bool mark = true);
/** The next message, which invalidates nothing. */
Octets answer(Connection &c);
/** The next message begins with these words, but for the grant, which is not zero. @what: for the verdict. */
void expect(Connection &c, std::initializer_list<u32> words, const char *what);
/** NULL, in version 2, with an R_key to invalidate or 0; nothing else comes before its answer. */
void served(Test &t, Connection &c, u32 invalidate = 0);

} // namespace verbs::two
