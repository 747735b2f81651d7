// SPDX-License-Identifier: GPL-2.0-only
/*
 * What tests of version 2, and of rtrext-01, have in common: a connection that may speak it, and answers word by word.
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

/** optr_err of rtrext-01. */
enum Fault : u32 {
	bad_hmt = 1,
	bad_omt = 2,
	bad_cont = 3,
	bad_seq = 4,
	bad_xid = 5,
	bad_off = 6,
	bad_tbsn = 7,
	bad_pl = 8
};

/** A transmission, as reports name it: xms_id. The direction is that of a call. */
struct Id {
	u32 xid, number, direction = 0;
};

/**
 * The next message, or @come, is a report about a call: @bad, @lead if there is one, what is wrong, and its two or three
 * values. @what: for the verdict.
 */
void expect_report(Connection &c, const Id &bad, std::optional<Id> lead, u32 fault,
		   const std::vector<u32> &values, const char *what, const Octets *come = nullptr);
/**
 * One that does what it can of rtrext-01, or says so. It asks for 8 credits: for more, the server's Receives would grow, and it
 * would say so in between.
 */
Connection &connect_rtr(Test &t, u32 extensions = 7);

} // namespace verbs::two
