// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a test works with: connections that are its own, and expectations. Each expectation that is
 * not met throws a Failure that says what came instead. After every test a fresh connection has to
 * be served, whatever the test did; main.cc sees to it.
 */
#pragma once

#include "message.hh"

namespace verbs {

/** A file that the server exports in its root, writable by everybody. */
constexpr const char *file_name = "verbs";

/** The memory of a chunk, cut into pieces of these lengths, from its beginning. */
std::vector<Segment> pieces(const Memory &memory, std::initializer_list<u32> lengths);

class Test {
public:
	explicit Test(Peer &peer) : peer_(peer)
	{
	}
	[[nodiscard]] Peer &peer()
	{
		return peer_;
	}

	/** A connection; it lasts as long as the test, or until drop(). */
	Connection &connect(const Setup &setup = {});
	void drop(Connection &connection);
	/** One that nobody had yet. */
	u32 xid()
	{
		return next_xid_++;
	}
	/** Something worth telling in the verdict. */
	void note(const std::string &what);
	[[nodiscard]] const std::string &notes() const
	{
		return notes_;
	}

	/** Send, or fail. */
	void send(Connection &connection, const Octets &message);
	/** The next message, which must be decodable and not have invalidated anything. */
	Answer answer(Connection &connection);
	/** A call and what comes for it. */
	Answer call(Connection &connection, const Header &header, const Chunks &chunks,
		    const Octets &payload);

	/** The next message is ERR_CHUNK and echoes @header. */
	void error_chunk(Connection &connection, const Header &header);
	/** The next message is ERR_VERS with 1..1, and echoes @header. */
	void error_vers(Connection &connection, const Header &header);
	/** @answer is an RDMA_MSG to @xid with no chunks, and grants credits; returns its payload. */
	Octets plain_reply(const Answer &answer, u32 xid);
	/** A NULL call is answered, and nothing else comes: what was sent before was dropped. */
	void dropped(Connection &connection);
	/** A NULL call is answered; returns the grant. */
	u32 served(Connection &connection);
	/** The other end ends the connection. */
	void lost(Connection &connection);

	/**
	 * @answer returns the chunks that were offered: the same segments, their lengths set as if
	 * @written bytes had filled each Write chunk in order, and the Reply chunk likewise.
	 */
	void returned(const Answer &answer, const Chunks &offered, const std::vector<u32> &written,
		      u32 reply_written = 0);

	/** Write to the file, and read from it, all inline. */
	void put(Connection &connection, u64 offset, const Octets &data);
	Octets get(Connection &connection, u64 offset, u32 count);
	/** The root's handle: NFSv3 takes those of NFSv4. */
	Octets root(Connection &connection);

private:
	Peer &peer_;
	std::vector<std::unique_ptr<Connection>> connections_;
	std::string notes_;
	/* Unlike those of the test before: the server may have a duplicate reply cache. */
	static u32 next_xid_;
};

/** Fails unless @condition; the text says what is wrong. */
void check(bool condition, const std::string &what);
/** Both are the same; else says where they begin to differ. */
void same(const Octets &got, const Octets &want, const char *what);

struct TestCase {
	const char *name;
	const char *what;
	void (*function)(Test &);
};

extern const std::vector<TestCase> header_tests, version2_tests, group_tests, item_tests,
	direction_tests, connection_tests, chunk_tests, backward_tests, nfs_tests;

/* storm.cc. They return whether all was well. */
bool storm(Peer &peer, u32 connections, const std::string &mix, u32 seconds);
/**
 * For at most @seconds connections may wait. @first: null, or the IPv4 address of the first; the next ones have
 * the next addresses; there are 250.
 */
bool crowd(Peer &peer, u32 connections, u32 seconds, const char *first);

/* hold.cc: does what standard input says; returns whether all was well. */
bool hold(Peer &peer);

} // namespace verbs
